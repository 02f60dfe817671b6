import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLedgerWorld, type LedgerWorld } from '../ledger/ledger-world.ts'
import { lastDollar, storms, threeNodes } from './last-dollar.ts'

let world: LedgerWorld
beforeAll(async () => {
  world = await createLedgerWorld()
})
afterAll(() => world.drop())

test.each(storms)(
  'the last dollar, day and minute are exact for 500 requests at once over three nodes; used: %s',
  async costs => {
    const nodes = await threeNodes(world, costs)
    // Those with bulk leases wait for recalls.
    const repetitions = costs === 'all, bulk leases first' ? 2 : 5
    for (let i = 0; i < repetitions; i++) expect(await lastDollar(world, nodes, costs)).toEqual([])
    expect(await world.violations()).toEqual([])
  },
)
