import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { breakConnections } from './break-connections.ts'
import { killPostgres } from './break-postgres.ts'
import { copyDirectory } from './copy-directory.ts'
import { crashAt } from './crash-at-failpoint.ts'
import { killAtRandom } from './kill-at-random.ts'
import { retryOneKey } from './retry-one-key.ts'
import type { Faulted, Scenario } from './scenario.ts'
import { type ChaosWorld, createWorld } from './world.ts'

// A short selection of `npm run chaos`.
const selection: readonly Scenario[] = [
  // First, because it affects all nodes.
  killPostgres(),
  crashAt('settlement-acknowledged', { lease: 'bulk' }),
  crashAt('relay-mid-stream', { lease: 'strict', path: { client: 'messages', model: 'chaos-responses' } }),
  crashAt('journal-written', { lease: 'bulk', path: { client: 'gemini', model: 'chaos-converse' } }),
  crashAt('replay-settled'),
  retryOneKey('settlement-acknowledged', { client: 'responses', model: 'chaos-messages' }),
  killAtRandom({ kills: 3, workers: 6, seed: 7 }),
  breakConnections('cut in the middle of answers', 5),
  copyDirectory(),
]

let world: ChaosWorld
beforeAll(async () => {
  world = await createWorld({ durable: false, programs: inject('postgresPrograms') })
})
afterAll(() => world.close())

const faulted = new Map<string, Faulted>()

test.each(selection)(
  '$name',
  async scenario => {
    const result = await scenario.run(world)
    faulted.set(scenario.name, result)
    expect(result.problems).toEqual([])
  },
  420_000,
)

// An idle gateway returns its leases after a minute, a drained one at once. `npm run chaos` waits for the minute.
test('then every gateway drains', () => world.drain())

test.each(selection)('the books are right after: $name', async ({ name }) => {
  const verdict = await faulted.get(name)!.settled()
  expect(verdict.problems).toEqual([])
  expect(verdict.requests).toBeGreaterThan(0)
})

test('finally no lease is left', async () => {
  expect((await world.pool.query('SELECT FROM lease')).rowCount).toBe(0)
})
