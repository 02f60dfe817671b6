import { randomUUIDv7 } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { splitCost } from '../../src/base/domain/money.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld, useNode } from './ledger-world.ts'

const world = useLedgerWorld()
const node = useNode(world)

test('each hoster is owed exactly the sum of its shares, the platform gets the rest, and the customer pays both', async () => {
  const customerId = await world.addCustomer(1_000_000n)
  const hosters = [randomUUIDv7(), randomUUIDv7(), randomUUIDv7()]
  const charges = fc.sample(fc.record({ chargeNanos: fc.bigInt(0n, 999n), bps: fc.nat(10_000), hoster: fc.nat(2) }), {
    numRuns: 300,
    seed: 7,
  })
  await Promise.all(
    charges.map(async ({ chargeNanos, bps, hoster }) => {
      const admission = admissionOf(customerId, 1_000n)
      await node.ledger.admit(admission)
      const hosterId = hosters[hoster]!
      await settle(
        node.ledger,
        settlementOf(admission, 1_000n, chargeNanos, { hosterId, ...splitCost(chargeNanos, bps) }),
      )
    }),
  )
  const total = charges.reduce((sum, { chargeNanos }) => sum + chargeNanos, 0n)
  const owed = hosters.map((_, i) =>
    charges
      .filter(({ hoster }) => hoster === i)
      .reduce((sum, c) => sum + splitCost(c.chargeNanos, c.bps).hosterShareNanos, 0n),
  )
  const { rows } = await world.pool.query<{ account_kind: string; account_id: string; amount: bigint }>(
    `SELECT account_kind, account_id, sum(amount_nanos)::bigint AS amount FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
    WHERE t.kind = 'settle' GROUP BY 1, 2`,
  )
  const amount = (kind: string, id?: string) =>
    rows.find(row => row.account_kind === kind && (id === undefined || row.account_id === id))!.amount
  expect(hosters.map(id => amount('hoster_payable', id))).toEqual(owed)
  expect(amount('customer')).toBe(-total)
  expect(amount('platform_revenue')).toBe(total - owed.reduce((a, b) => a + b))
  expect(await world.violations()).toEqual([])
})

test('a cost above its lease is charged up to the lease and shared in the same proportion, and the rest is written off', async () => {
  const customerId = await world.addCustomer(1_000n)
  const admission = admissionOf(customerId, 101n)
  await node.ledger.admit(admission)
  await settle(node.ledger, settlementOf(admission, 500n, 333n, { ...splitCost(333n, 7_777), writeoffNanos: 5n }))
  const { rows } = await world.pool.query(
    'SELECT hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, writeoff_nanos FROM usage_event WHERE customer_id = $1',
    [customerId],
  )
  // The share of 333 is floor(333 x 0.7777) = 258. The share of 101 is floor(258 x 101 / 333) = floor(78.25).
  expect(rows).toEqual([
    { hold_nanos: 101n, cost_nanos: 101n, hoster_share_nanos: 78n, fee_nanos: 23n, writeoff_nanos: 237n },
  ])
  expect(await world.violations()).toEqual([])
})
