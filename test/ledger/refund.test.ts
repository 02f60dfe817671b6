import { randomUUIDv7 } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { splitCost } from '../../src/base/domain/money.ts'
import { payerOfRequest } from '../../src/money/ledger/accounts/payer-of-request.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld, useNode } from './ledger-world.ts'

const world = useLedgerWorld()
const node = useNode(world)

/** Serves one request and returns its id. */
async function serve(customerId: string, chargeNanos: bigint, more: { bps?: number; hosterId?: string } = {}) {
  const admission = admissionOf(customerId, 1_000n)
  await node.ledger.admit(admission)
  const { bps = 8_000, ...hoster } = more
  await settle(node.ledger, settlementOf(admission, 1_000n, chargeNanos, { ...splitCost(chargeNanos, bps), ...hoster }))
  return admission.requestId
}

async function entriesOf(requestId: string) {
  const { rows } = await world.pool.query<{ kind: string; amount: bigint }>(
    `SELECT account_kind AS kind, amount_nanos AS amount FROM ledger_entry JOIN ledger_tx USING (tx_id)
     WHERE kind = 'refund' AND ref = $1 ORDER BY 1`,
    [requestId],
  )
  return rows
}

const refundOf = async (requestId: string) => {
  const { rows } = await world.pool.query(
    `SELECT amount_nanos AS "amountNanos", hoster_share_nanos AS "hosterShareNanos", fee_nanos AS "feeNanos", reason, at
       FROM refund WHERE request_id = $1`,
    [requestId],
  )
  return rows[0]
}

const owedNanos = async (hosterId: string) => {
  const { rows } = await world.pool.query<{ owed: bigint }>(
    `SELECT coalesce(sum(amount_nanos), 0)::bigint AS owed FROM ledger_entry WHERE account_kind = 'hoster_payable' AND account_id = $1`,
    [hosterId],
  )
  return rows[0]!.owed
}

test('a full refund returns the whole charge, and the hoster and the platform give back exactly what they earned', async () => {
  const customerId = await world.addCustomer(1_000n)
  const requestId = await serve(customerId, 101n)
  const order = { customerId, requestId, amountNanos: null, reason: 'wrong language' }
  const result = await refundRequest(world.pool, order)
  expect(result).toMatchObject({
    kind: 'refunded',
    chargedNanos: 101n,
    refund: { amountNanos: 101n, hosterShareNanos: 80n, feeNanos: 21n, reason: 'wrong language' },
  })
  expect(await entriesOf(requestId)).toEqual([
    { kind: 'customer', amount: 101n },
    { kind: 'hoster_payable', amount: -80n },
    { kind: 'platform_revenue', amount: -21n },
  ])
  // The daily cap limits what a customer starts in a day, and the refunded request was started.
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 1_000n, daySpentNanos: 101n })
  expect(await refundOf(requestId)).toEqual('refund' in result && result.refund)
  expect(await world.violations()).toEqual([])
})

test('a partial refund is split in the proportion of the shares, for any amounts', async () => {
  const customerId = await world.addCustomer(1_000_000n)
  const hosterId = randomUUIDv7()
  const cases = fc.sample(
    fc.record({
      chargeNanos: fc.bigInt(1n, 999n),
      bps: fc.constantFrom(0, 1, 3_333, 8_000, 9_999, 10_000),
      part: fc.bigInt(1n, 1_000n),
    }),
    { numRuns: 150, seed: 11 },
  )
  let owed = 0n
  await Promise.all(
    cases.map(async ({ chargeNanos, bps, part }) => {
      const requestId = await serve(customerId, chargeNanos, { bps, hosterId })
      const amountNanos = (chargeNanos * part + 999n) / 1_000n
      const { hosterShareNanos: share, feeNanos: fee } = splitCost(chargeNanos, bps)
      const result = await refundRequest(world.pool, { customerId, requestId, amountNanos, reason: 'a part' })
      const hosterShareNanos = (share * amountNanos) / chargeNanos
      expect(result).toMatchObject({
        kind: 'refunded',
        refund: { amountNanos, hosterShareNanos, feeNanos: amountNanos - hosterShareNanos },
      })
      expect(amountNanos - hosterShareNanos).toBeLessThanOrEqual(fee)
      owed += share - hosterShareNanos
    }),
  )
  expect(await owedNanos(hosterId)).toBe(owed)
  expect(await world.violations()).toEqual([])
})

test('concurrent refunds of a request refund it once; the same amount again changes nothing, another amount is refused', async () => {
  const customerId = await world.addCustomer(1_000n)
  const requestId = await serve(customerId, 100n)
  const order = { customerId, requestId, amountNanos: 40n, reason: 'first' }
  const kinds = (await Promise.all(Array.from({ length: 6 }, () => refundRequest(world.pool, order)))).map(r => r.kind)
  expect(kinds.sort()).toEqual([...Array(5).fill('duplicate'), 'refunded'])
  expect(await refundRequest(world.pool, { ...order, reason: 'second' })).toMatchObject({
    kind: 'duplicate',
    refund: { reason: 'first' },
  })
  for (const amountNanos of [null, 41n, 60n, 100_000n]) {
    expect(await refundRequest(world.pool, { ...order, amountNanos })).toMatchObject({
      kind: 'refunded_before',
      refund: { amountNanos: 40n },
    })
  }
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 940n })
  expect(await world.violations()).toEqual([])
})

test('a request that was not charged, not settled, or charged to another customer is not refunded', async () => {
  const [customerId, other] = [await world.addCustomer(1_000n), await world.addCustomer(1_000n)]
  const [paid, free] = [await serve(customerId, 100n), await serve(customerId, 0n)]
  const running = admissionOf(customerId, 100n)
  await node.ledger.admit(running)
  const order = { customerId, requestId: paid, amountNanos: null, reason: 'x' }
  expect(await refundRequest(world.pool, { ...order, amountNanos: 101n })).toEqual({
    kind: 'above_charge',
    chargedNanos: 100n,
  })
  expect(await refundRequest(world.pool, { ...order, requestId: free })).toEqual({ kind: 'free' })
  expect(await refundRequest(world.pool, { ...order, requestId: running.requestId })).toEqual({ kind: 'no_request' })
  expect(await refundRequest(world.pool, { ...order, customerId: other })).toEqual({ kind: 'no_request' })
  expect(await refundRequest(world.pool, { ...order, customerId: randomUUIDv7() })).toEqual({ kind: 'no_request' })
  await expect(refundRequest(world.pool, { ...order, amountNanos: 0n })).rejects.toThrow(RangeError)
  expect(await refundOf(paid)).toBeUndefined()
  expect([await payerOfRequest(world.pool, paid), await payerOfRequest(world.pool, running.requestId)]).toEqual([
    customerId,
    undefined,
  ])
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 900n })
  expect(await world.violations()).toEqual([])
})

test('a refund raises the free balance, and the holds of leases stay', async () => {
  const customerId = await world.addCustomer(1_000n)
  const requestId = await serve(customerId, 600n)
  const running = admissionOf(customerId, 400n)
  expect(await node.ledger.admit(running)).toMatchObject({ kind: 'granted' })
  expect(await node.ledger.admit(admissionOf(customerId, 500n))).toMatchObject({ kind: 'refused' })
  await refundRequest(world.pool, { customerId, requestId, amountNanos: null, reason: 'x' })
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 1_000n, leasedNanos: 400n })
  expect(await node.ledger.admit(admissionOf(customerId, 500n))).toMatchObject({ kind: 'granted' })
  await settle(node.ledger, settlementOf(running, 400n, 400n))
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 600n })
  expect(await world.violations()).toEqual([])
})
