import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { encodeSettlements } from '../../src/money/ledger/settlement/settlement.ts'
import { useCli } from '../cli/use-cli.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, settlementOf, unlimited, useLedgerWorld } from '../ledger/ledger-world.ts'

const USD = 1_000_000_000n

const world = useLedgerWorld()
const cli = useCli(world)

async function json(...args: string[]) {
  const { code, stdout, stderr } = await cli.run([...args, '--json'])
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout)
}

// Went wrong: `customer list` and `credit grant` ignored the charges of an open bulk lease, up to a minute of requests (fixed in 160f062).
test('commands subtract the charges of an open bulk lease from the balance', async () => {
  const store = storeOf(world.pool)
  const { nodeId } = await world.addNode()
  const customerId = await world.addCustomer(16n * USD)
  await world.addCustomer(2n * USD)
  const leaseId = randomUUIDv7()
  await store.admit(nodeId, [{ leaseId, customerId, limits: unlimited, wantNanos: USD, floorNanos: USD, slots: 20 }])
  const settlement = settlementOf(admissionOf(customerId, USD), USD, USD, { leaseId })
  await store.settle(1, encodeSettlements([settlement]))

  const balances = (await json('customer', 'list')).map(({ balance_usd }: { balance_usd: string }) => balance_usd)
  expect(balances).toEqual(['15.00', '2.00'])
  const grant = ['credit', 'grant', customerId, '3', '--paid', '--reason', 'paid', '--yes']
  expect(await json(...grant)).toMatchObject({ balance_usd: '18.00' })
  expect(await world.violations()).toEqual([])
})
