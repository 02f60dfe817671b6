import { afterAll, beforeAll, expect, test } from 'vitest'
import { bumpControlVersion, watchControlVersions } from '../../src/db/control-version.ts'
import type { Sql } from '../../src/db/pool.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database?.drop())

test('a listener that takes long keeps no other from hearing of the next changes', async () => {
  const changes = watchControlVersions(database.pool, { intervalMs: 5 })
  const stuck = Promise.withResolvers<void>()
  let reads = 0
  let heard = 0
  changes.onChange('supply', () => {
    reads++
    return stuck.promise
  })
  changes.onChange('access', () => {
    heard++
  })
  await expect.poll(() => [reads, heard]).toEqual([1, 1])
  await bumpControlVersion(database.pool, 'supply')
  await bumpControlVersion(database.pool, 'access')
  await expect.poll(() => heard).toBe(2)
  expect(reads).toBe(1)
  stuck.resolve()
  // What changed while it was busy it hears of too.
  await expect.poll(() => reads).toBe(2)
  await changes.stop()
})

test('a listener that fails is told again', async () => {
  const faults: unknown[] = []
  const changes = watchControlVersions(database.pool, { intervalMs: 60_000, onError: fault => faults.push(fault) })
  let tries = 0
  changes.onChange('supply', () => {
    if (++tries === 1) throw new Error('not now')
  })
  await changes.poll()
  await changes.poll()
  await changes.poll()
  expect([tries, faults.length]).toEqual([2, 1])
  await changes.stop()
})

test('one that fails for long is told once a look, and a stop waits for that alone', async () => {
  let looks = 0
  const sql: Sql = {
    async query(statement) {
      looks++
      return database.pool.query(statement)
    },
  }
  const changes = watchControlVersions(sql, { intervalMs: 5 })
  const stuck = Promise.withResolvers<void>()
  let tries = 0
  changes.onChange('supply', async () => {
    tries++
    await stuck.promise
    throw new Error('not now')
  })
  await expect.poll(() => looks).toBeGreaterThan(5)
  const stopping = changes.stop()
  stuck.resolve()
  await stopping
  expect(tries).toBe(1)
})
