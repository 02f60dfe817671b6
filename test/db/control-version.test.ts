import { expect, test } from 'vitest'
import { bumpControlVersion, watchControlVersions } from '../../src/base/db/control-version.ts'
import type { Sql } from '../../src/base/db/pool.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase()

test('a slow listener does not delay the other listeners', async () => {
  const changes = watchControlVersions(database.pool, { intervalMs: 5 })
  const stuck = Promise.withResolvers<void>()
  let reads = 0
  let accessChanges = 0
  changes.onChange('supply', () => {
    reads++
    return stuck.promise
  })
  changes.onChange('access', () => {
    accessChanges++
  })
  await expect.poll(() => [reads, accessChanges]).toEqual([1, 1])
  await bumpControlVersion(database.pool, 'supply')
  await bumpControlVersion(database.pool, 'access')
  await expect.poll(() => accessChanges).toBe(2)
  expect(reads).toBe(1)
  stuck.resolve()
  // A change during a slow call leads to another call.
  await expect.poll(() => reads).toBe(2)
  await changes.stop()
})

test('a listener that fails is called again', async () => {
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

test('polls during a long call of a listener queue no further calls, and stop waits for that call alone', async () => {
  let polls = 0
  const sql: Sql = {
    async query(statement) {
      polls++
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
  await expect.poll(() => polls).toBeGreaterThan(5)
  const stopping = changes.stop()
  stuck.resolve()
  await stopping
  expect(tries).toBe(1)
})
