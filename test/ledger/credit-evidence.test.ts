import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { MasterKeys } from '../../src/base/secrets/master-keys.ts'
import { houseCallers } from '../../src/market/trust/audits/house-customers.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// Credit that no process of the gateway gave is found, whichever role of the database wrote it.

const masterKey = randomBytes(32)
const evidence = createCreditEvidence(new MasterKeys([masterKey]).derived('evidence of credit'))
const app = useTestApp({ masterKey, yaml: 'payments: { manual: { instructions: "Quote {reference}." } }\n' })
let operator: BrowserClient
let desk: Pool
let customerId: string
let payer: BrowserClient
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
  desk = createPool(app.database.deskConnection, { max: 2, applicationName: 'attacker' })
  customerId = (await app.customer({ creditNanos: 0n, tier: 'free' })).customerId
  payer = (await signedInMember(app, customerId, 'billing')).browser
})
afterAll(() => desk.end())

/** What an audit with the key of the gateway finds, by check. */
async function findings(isEvidence = evidence.isValid): Promise<Record<string, readonly string[]>> {
  const found = await audit(app.database.pool, { isEvidence })
  return Object.fromEntries(found.filter(each => each.violations > 0).map(({ name, examples }) => [name, examples]))
}

const read = async <T>(response: Response): Promise<T> => {
  expect(response.status).toBe(200)
  return (await response.json()) as T
}

async function txOf(kind: string, ref: string): Promise<string> {
  const { rows } = await app.database.pool.query<{ id: bigint }>(
    'SELECT tx_id AS id FROM ledger_tx WHERE kind = $1 AND ref = $2',
    [kind, ref],
  )
  return String(rows[0]!.id)
}

/** Undoes what an attack wrote, as no role but a superuser could. */
async function removing(attack: () => Promise<void>): Promise<void> {
  const { pool } = app.database
  const before = await pool.query<{ last: bigint }>('SELECT coalesce(max(tx_id), 0) AS last FROM ledger_tx')
  try {
    await attack()
  } finally {
    const triggers = (verb: string) =>
      pool.query(`ALTER TABLE ledger_tx ${verb} TRIGGER USER; ALTER TABLE ledger_entry ${verb} TRIGGER USER;
        ALTER TABLE credit_evidence ${verb} TRIGGER USER; ALTER TABLE payment ${verb} TRIGGER USER`)
    await triggers('DISABLE')
    const last = before.rows[0]!.last
    await pool.query(
      `UPDATE balance b SET posted_nanos = posted_nanos - e.amount FROM (
         SELECT account_id, sum(amount_nanos)::bigint AS amount FROM ledger_entry
         WHERE account_kind = 'customer' AND (tx_id > $1 OR tx_id < 0) GROUP BY account_id) e
       WHERE b.customer_id = e.account_id`,
      [last],
    )
    for (const statement of [
      'DELETE FROM credit_evidence WHERE tx_id > $1 OR tx_id < 0',
      'UPDATE voucher SET payment_id = NULL, redeemed_at = NULL WHERE payment_id IN (SELECT payment_id FROM payment WHERE tx_id > $1)',
      'DELETE FROM payment WHERE tx_id > $1',
      'DELETE FROM ledger_entry WHERE tx_id > $1 OR tx_id < 0',
      'DELETE FROM ledger_tx WHERE tx_id > $1 OR tx_id < 0',
    ])
      await pool.query(statement, [last])
    await pool.query('DELETE FROM voucher WHERE mac IS NULL')
    await triggers('ENABLE')
  }
}

test('all that the gateway gives has evidence, and no other key makes the same', async () => {
  const topUp = await read<{ id: string }>(
    await payer.send(
      'POST',
      `customers/${customerId}/top-ups`,
      { amount_usd: 25 },
      { 'idempotency-key': randomUUID() },
    ),
  )
  await read(await operator.post(`operator/payments/${topUp.id}/confirm`))
  const { data } = await read<{ data: { id: string; code: string }[] }>(
    await operator.post('operator/vouchers', { amount_usd: 5, count: 2, note: 'test' }),
  )
  await read(await payer.post(`customers/${customerId}/vouchers/redeem`, { code: data[0]!.code }))
  await read(
    await operator.post(`operator/customers/${customerId}/grants`, {
      amount_usd: 1,
      reason: 'x',
      ref: 'g1',
      is_promotion: false,
    }),
  )
  await houseCallers(desk, evidence)
  expect(await findings()).toEqual({})

  const other = createCreditEvidence(new MasterKeys([randomBytes(32)]).derived('evidence of credit'))
  const found = await findings(other.isValid)
  expect(found.credit_has_evidence).toEqual(
    expect.arrayContaining([
      await txOf('payment', topUp.id),
      await txOf('voucher', data[0]!.id),
      await txOf('credit', 'g1'),
    ]),
  )
  expect(found.vouchers_have_evidence).toEqual(expect.arrayContaining(data.map(({ id }) => id)))
})

describe('an attacker with the desk role that forges', () => {
  const pay = async (paymentId: string) => {
    await desk.query(
      `SELECT start_payment($1, $2, 'stripe', 1000000000000, 100000, 'usd', true, $1::uuid::text, $1::uuid::text, NULL, NULL, NULL)`,
      [paymentId, customerId],
    )
    const fact = { state: 'paid', payment_id: paymentId, amount_minor: 100_000, currency: 'usd', is_live: true }
    const { rows } = await desk.query("SELECT book_payment_report($1, 'stripe', 0, $2, NULL) AS result", [
      paymentId,
      JSON.stringify({ ...fact, total_minor: 100_000, fee_nanos: null, reversals: [] }),
    ])
    expect(rows).toEqual([{ result: 'booked' }])
  }

  test('the report of a provider is named', () =>
    removing(async () => {
      const paymentId = randomUUID()
      await pay(paymentId)
      expect(await findings()).toEqual({ credit_has_evidence: [await txOf('payment', paymentId)] })
    }))

  test('evidence, or copies that of another credit, is named', () =>
    removing(async () => {
      const [guessed, copied] = [randomUUID(), randomUUID()]
      await pay(guessed)
      await pay(copied)
      await desk.query('SELECT add_credit_evidence($1, $2, $3)', ['payment', guessed, randomBytes(32)])
      await desk.query(
        `SELECT add_credit_evidence('payment', $1, (SELECT mac FROM credit_evidence JOIN ledger_tx USING (tx_id) WHERE ref = 'g1'))`,
        [copied],
      )
      const forged = [await txOf('payment', guessed), await txOf('payment', copied)]
      expect(await findings()).toEqual({ credit_has_evidence: forged })
    }))

  test('a voucher with the session of an operator is named before it is redeemed', () =>
    removing(async () => {
      const voucherId = randomUUID()
      await desk.query(
        `SELECT make_voucher_by_operator(token_hash, $1, sha256('x'), 'x', 5, '', true, now() + interval '1 day', NULL)
           FROM person_session JOIN person USING (person_id) WHERE installation_role = 'operator'`,
        [voucherId],
      )
      expect(await findings()).toEqual({ vouchers_have_evidence: [voucherId] })
    }))
})

test('credit that the owner dates back to before evidence began is noticed', () =>
  removing(async () => {
    await app.database.pool.query(
      `WITH tx AS (INSERT INTO ledger_tx (tx_id, kind, ref) OVERRIDING SYSTEM VALUE VALUES (-1, 'credit', 'old') RETURNING tx_id),
         entries AS (INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
           SELECT tx_id, 'customer', $1::uuid, 5 FROM tx UNION ALL
           SELECT tx_id, 'platform_promo', '00000000-0000-0000-0000-000000000000', -5 FROM tx)
       UPDATE balance SET posted_nanos = posted_nanos + 5 WHERE customer_id = $1`,
      [customerId],
    )
    expect(await findings()).toEqual({ credit_is_not_dated_back: ['credits'] })
  }))

test('a process that knows another amount than the books gives nothing', async () => {
  await expect(evidence.add(desk, 'credit', 'g1', { amountNanos: 2n })).rejects.toThrow('amountNanos')
  await expect(evidence.add(desk, 'credit', 'g2')).rejects.toThrow('gave nothing')
})

test('after a loss of the master key, evidence begins again, for vouchers too', async () => {
  const voucher = { amount_usd: 3, note: 'before the loss' }
  expect((await operator.post('operator/vouchers', voucher)).status).toBe(200)
  const lost = createCreditEvidence(new MasterKeys([randomBytes(32)]).derived('evidence of credit'))
  expect(Object.keys(await findings(lost.isValid))).toContain('vouchers_have_evidence')
  await app.database.pool.query('SELECT start_credit_evidence()')
  expect(await findings(lost.isValid)).toEqual({})
  expect(await findings()).toEqual({})
})
