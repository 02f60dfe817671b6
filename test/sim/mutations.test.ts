import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { expect, test } from 'vitest'
import { codeMutations } from '../../sim/code-mutations.ts'
import { mutated, mutations } from '../../sim/mutations.ts'
import { plantSql } from '../../sim/plant-sql.ts'
import { prove } from '../../sim/prove.ts'
import { proveCode } from '../../sim/prove-code.ts'
import { sqlMutations } from '../../sim/sql-mutations.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase()

test('the source text of every planted bug occurs exactly once in its file', async () => {
  const all = [...mutations, ...codeMutations]
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
  for (const mutation of all) {
    const source = await readFile(new URL(`../../${mutation.file}`, import.meta.url), 'utf8')
    const planted = mutated(mutation, source)
    expect(planted, mutation.id).not.toBe(source)
    expect(() => stripTypeScriptTypes(planted), mutation.id).not.toThrow()
  }
})

test('every SQL bug can be planted in its function', async () => {
  expect(new Set(sqlMutations.map(({ id }) => id)).size).toBe(sqlMutations.length)
  for (const bug of sqlMutations) await expect(database.pool.query(plantSql(bug)), bug.id).resolves.toBeDefined()
})

test('the planted bug code-jit-as-configured is found by its test', async () => {
  const bug = codeMutations.find(({ id }) => id === 'code-jit-as-configured')!
  expect(await proveCode(bug)).toBeDefined()
})

// The fastest to find; npm run sim -- --prove tries all of them.
test.each([
  'admit-without-fence',
  'hand-back-folds-twice',
  'node-reuses-id',
  'ledger-answers-before-journal',
  'price-rounds-twice',
  'refund-twice',
  'key-taken-over-too-early',
  'breaker-forgets-end',
])('the simulator finds the planted bug %s', async id => {
  const mutation = mutations.find(candidate => candidate.id === id)!
  expect(await prove(mutation, 1, 500)).toBeDefined()
})
