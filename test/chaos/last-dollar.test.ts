import { expect, test } from 'vitest'
import { useLedgerWorld } from '../ledger/ledger-world.ts'
import { lastDollars, storms, threeNodes } from './last-dollar.ts'

// One world per test, since live nodes share the money for bulk leases.
const world = useLedgerWorld('test')

test.each(storms)(
  '500 concurrent requests on three nodes never exceed balance, daily cap or minute limit; used: %s',
  async costs => {
    const nodes = await threeNodes(world, costs)
    // Runs with bulk leases are slower because they wait for recalls.
    const repetitions = costs === 'all, bulk leases first' ? 2 : 5
    const { problems } = await lastDollars(world, nodes, costs, repetitions)
    expect(problems).toEqual([])
    expect(await world.violations()).toEqual([])
  },
)
