import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLedgerWorld, type LedgerWorld, type TestNode } from '../ledger/ledger-world.ts'
import { lastDollar } from './last-dollar.ts'

let world: LedgerWorld
let nodes: TestNode[]
beforeAll(async () => {
  world = await createLedgerWorld()
  nodes = await Promise.all([world.addNode(), world.addNode(), world.addNode()])
})
afterAll(() => world.drop())

test.each([1, 2, 3, 4, 5])(
  'the last dollar, day and minute are exact for 500 requests at once over three nodes, time %i',
  async repetition => {
    expect(await lastDollar(world, nodes, { partly: repetition % 2 === 0 })).toEqual([])
    expect(await world.violations()).toEqual([])
  },
)
