import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLedgerWorld, type LedgerWorld } from '../ledger/ledger-world.ts'
import { lastDollars, storms, threeNodes } from './last-dollar.ts'

let world: LedgerWorld
// One for each test: bulk leases are shares among the nodes that live.
beforeEach(async () => {
  world = await createLedgerWorld()
})
afterEach(() => world.drop())

test.each(storms)(
  'the last dollar, day and minute are exact for 500 requests at once over three nodes; used: %s',
  async costs => {
    const nodes = await threeNodes(world, costs)
    // Those with bulk leases wait for recalls.
    const repetitions = costs === 'all, bulk leases first' ? 2 : 5
    const { problems } = await lastDollars(world, nodes, costs, repetitions)
    expect(problems).toEqual([])
    expect(await world.violations()).toEqual([])
  },
  300_000,
)
