import { afterAll, beforeAll, expect, test } from 'vitest'
import { breakConnections } from './break-connections.ts'
import { killPostgres } from './break-postgres.ts'
import { copyDirectory } from './copy-directory.ts'
import { crashAt } from './crash-at-failpoint.ts'
import { killAtRandom } from './kill-at-random.ts'
import { retryOneKey } from './retry-one-key.ts'
import type { Scenario } from './scenario.ts'
import { type ChaosWorld, createWorld } from './world.ts'

// A short selection of `npm run chaos`.
const selection: readonly Scenario[] = [
  crashAt('settlement-acknowledged', 'bulk'),
  crashAt('replay-settled'),
  retryOneKey('settlement-acknowledged'),
  killAtRandom({ kills: 3, workers: 6, seed: 7 }),
  breakConnections('cut in the middle of answers', 5),
  copyDirectory(),
  killPostgres(),
]

let world: ChaosWorld
beforeAll(async () => {
  world = await createWorld({ durable: false })
})
afterAll(() => world.close())

test.each(selection)(
  '$name',
  async scenario => {
    const { problems, settled } = await scenario.run(world)
    const verdict = await settled()
    expect([...problems, ...verdict.problems]).toEqual([])
    expect(verdict.requests).toBeGreaterThan(0)
  },
  420_000,
)

test('finally every gateway drains, and no lease is left', async () => {
  await world.drain()
  expect((await world.pool.query('SELECT FROM lease')).rowCount).toBe(0)
})
