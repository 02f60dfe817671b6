import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { expect, test } from 'vitest'
import { mutated, mutations } from '../../sim/mutations.ts'
import { prove } from '../../sim/prove.ts'

test('every planted bug has its place in the sources, exactly once', async () => {
  expect(new Set(mutations.map(({ id }) => id)).size).toBe(mutations.length)
  for (const mutation of mutations) {
    const source = await readFile(new URL(`../../${mutation.file}`, import.meta.url), 'utf8')
    const planted = mutated(mutation, source)
    expect(planted, mutation.id).not.toBe(source)
    expect(() => stripTypeScriptTypes(planted), mutation.id).not.toThrow()
  }
})

// The quickest ones; npm run sim -- --prove tries them all.
test.each([
  'admit-without-fence',
  'hand-back-folds-twice',
  'node-reuses-id',
  'ledger-answers-before-journal',
  'price-rounds-twice',
  'refund-twice',
  'key-taken-over-too-early',
  'breaker-forgets-end',
])('the planted bug %s is found', async id => {
  const mutation = mutations.find(candidate => candidate.id === id)!
  expect(await prove(mutation, 1, 500)).toBeDefined()
})
