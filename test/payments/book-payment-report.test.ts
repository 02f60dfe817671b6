import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { useLedgerWorld } from '../ledger/ledger-world.ts'

// What the function makes of reports that no driver of today sends, or that repeat what is known.

const world = useLedgerWorld()

/** A customer with a paid payment of 25 USD and automatic top-ups. */
async function payer() {
  const [customerId, paymentId, methodId] = [await world.addCustomer(0n), randomUUID(), randomUUID()]
  const query = async (text: string, values: unknown[]) => (await world.pool.query(text, values)).rows[0] ?? {}
  await query("SELECT start_payment($1, $2, 'stripe', 25000000000, 2500, 'usd', false, $3, NULL, NULL, NULL, NULL)", [
    paymentId,
    customerId,
    `SY-${paymentId.slice(0, 8)}`,
  ])
  await query("INSERT INTO payment_method VALUES ($1, $2, 'stripe', 'pm_1', 'visa', '4242', '12/30')", [
    methodId,
    customerId,
  ])
  const report = async (more: object) => {
    const fact = { state: 'paid', payment_id: paymentId, amount_minor: 2500, currency: 'usd', is_live: false, ...more }
    const { result } = await query(
      `SELECT book_payment_report($1, 'stripe', (SELECT version FROM payment WHERE payment_id = $1), $2, NULL) AS result`,
      [paymentId, fact],
    )
    return result as string
  }
  const consent = () =>
    query(
      `INSERT INTO auto_top_up VALUES ($1, $2, 5000000000, 25000000000, 25000000000, $1, now())
       ON CONFLICT (customer_id) DO UPDATE SET paused_at = NULL, pause_reason = NULL`,
      [customerId, methodId],
    )
  const isPaused = async () =>
    (await query('SELECT paused_at IS NOT NULL AS paused FROM auto_top_up WHERE customer_id = $1', [customerId])).paused
  const read = (column: string) =>
    query(`SELECT ${column} AS value FROM payment WHERE payment_id = $1`, [paymentId]).then(({ value }) => value)
  expect(await report({ total_minor: 2500 })).toBe('booked')
  await consent()
  return { customerId, paymentId, report, consent, isPaused, read }
}

const dispute = (minor: number) => ({ ref: 'dp_1', kind: 'dispute', minor, reversal_id: null, reason: 'disputed' })

test('a dispute pauses automatic top-ups once, and again only if it takes more', async () => {
  const { report, consent, isPaused } = await payer()
  const reversed = (minor: number) => report({ total_minor: 2500, reversals: [dispute(minor)] })
  expect([await reversed(1000), await isPaused()]).toEqual(['booked', true])
  await consent()
  expect([await reversed(1000), await isPaused()]).toEqual(['unchanged', false])
  expect([await reversed(2500), await isPaused()]).toEqual(['booked', true])
  await consent()
  expect([await reversed(0), await isPaused()]).toEqual(['booked', false])
})

test('a dispute of a payment that was refunded pauses them as well', async () => {
  const { report, isPaused } = await payer()
  const refund = { ...dispute(2500), ref: 're_1', kind: 'refund' }
  expect([await report({ total_minor: 2500, reversals: [refund] }), await isPaused()]).toEqual(['booked', false])
  const both = [refund, dispute(2500)]
  expect([await report({ total_minor: 2500, reversals: both }), await isPaused()]).toEqual(['booked', true])
})

test("a report of an operator's refund is a change, though its money was taken before", async () => {
  const { paymentId, report } = await payer()
  const reversalId = randomUUID()
  const { rows } = await world.pool.query(
    "SELECT reverse_payment($1, $2, 10000000000, 1000, false, 'asked') AS verdict",
    [reversalId, paymentId],
  )
  expect(rows).toEqual([{ verdict: 'taken' }])
  const refund = { ref: 're_2', kind: 'refund', minor: 1000, reversal_id: reversalId, reason: 'asked' }
  expect(await report({ total_minor: 2500, reversals: [refund] })).toBe('booked')
  expect(await report({ total_minor: 2500, reversals: [refund] })).toBe('unchanged')
})

test.each([{}, { total_minor: null }, { total_minor: 0 }])(
  'a report of a reversal with the total %j takes nothing: operators see it',
  async total => {
    const { report, read } = await payer()
    expect(await report({ ...total, reversals: [dispute(100)] })).toBe('mismatch')
    expect(await read('mismatch')).toMatch(/^total (missing|0)$/)
    expect(await read('(SELECT count(*)::int FROM payment_reversal r WHERE r.payment_id = payment.payment_id)')).toBe(0)
  },
)

test('fees are booked as the difference to those before', async () => {
  const { report, read, paymentId } = await payer()
  const fees = async () => {
    const { rows } = await world.pool.query<{ paid: bigint }>(
      `SELECT coalesce(sum(amount_nanos), 0)::bigint AS paid FROM ledger_entry JOIN ledger_tx USING (tx_id)
        WHERE kind = 'processor_fee' AND ref LIKE $1 || ':%' AND account_kind = 'cash'`,
      [paymentId],
    )
    return rows[0]!.paid
  }
  expect(await report({ total_minor: 2500, fee_nanos: 1_000 })).toBe('booked')
  expect(await report({ total_minor: 2500, fee_nanos: 1_500 })).toBe('booked')
  expect(await report({ total_minor: 2500 })).toBe('unchanged')
  expect([await read('fee_nanos'), await fees()]).toEqual([1_500n, 1_500n])
})

test('a payment is closed by three states only, and a credit is given once', async () => {
  const { paymentId } = await payer()
  await expect(world.pool.query("SELECT close_payment($1, 'paid', NULL)", [paymentId])).rejects.toMatchObject({
    code: '22023',
  })
  await expect(
    world.pool.query(
      "SELECT give_payment_credit(p, 'payment', p.payment_id::text, 'x') FROM payment p WHERE payment_id = $1",
      [paymentId],
    ),
  ).rejects.toMatchObject({ code: '23505' })
})
