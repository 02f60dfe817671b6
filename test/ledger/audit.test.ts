import { randomBytes, randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { type AuditCheck, auditChecks } from '../../src/money/ledger/audit/audit-checks.ts'
import { planAudit } from '../../src/money/ledger/audit/audit-slices.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { admissionOf, createLedgerWorld, type LedgerWorld, settle, settlementOf } from './ledger-world.ts'
import { addLimitedMember } from './limited-member.ts'

const PLANTED_HOSTER =
  "INSERT INTO hoster (hoster_id, name, share_bps) VALUES (gen_random_uuid(), 'planted', 0) RETURNING hoster_id"

/** A payout without entries. @param more its state and what it has taken */
function plantedPayout(more: string): string {
  return `WITH h AS (${PLANTED_HOSTER}),
    b AS (INSERT INTO payout_batch (batch_id, driver, is_live) SELECT hoster_id, 'csv', true FROM h)
    INSERT INTO payout (payout_id, batch_id, hoster_id, driver, is_live, destination, reference, amount_nanos, state, taken_nanos)
    SELECT hoster_id, hoster_id, hoster_id, 'csv', true, 'DE1', 'PO-1', 10000000, ${more} FROM h`
}

const evidence = createCreditEvidence(fixedKey(randomBytes(32)))
const { isValid: isEvidence } = evidence

/** One violation for each check. Bypasses the functions, triggers and constraints, which would reject it. */
const corruptions: Record<AuditCheck, string> = {
  transactions_sum_to_zero: `UPDATE ledger_entry SET amount_nanos = amount_nanos + 1 WHERE account_kind = 'platform_promo'`,
  ledger_sums_to_zero: `UPDATE ledger_entry SET amount_nanos = amount_nanos + 1 WHERE account_kind = 'platform_promo'`,
  entries_have_a_transaction: `INSERT INTO ledger_entry VALUES
    (999, 'cash', '00000000-0000-0000-0000-000000000000', 5), (999, 'platform_promo', '00000000-0000-0000-0000-000000000000', -5)`,
  transactions_have_entries: `INSERT INTO ledger_tx (kind, ref) VALUES ('settle', 'planted')`,
  one_signup_credit_per_customer: `WITH again AS (INSERT INTO ledger_tx (kind, ref) VALUES ('signup_credit', 'again') RETURNING tx_id)
    INSERT INTO ledger_entry SELECT again.tx_id, 'customer', customer_id, 5 FROM again, balance`,
  balances_cover_their_leases: 'UPDATE balance SET leased_nanos = posted_nanos + 1',
  balances_equal_entries: 'UPDATE balance SET posted_nanos = posted_nanos + 1',
  leased_equals_open_leases: 'DELETE FROM lease',
  settled_within_granted: 'UPDATE lease SET settled_nanos = granted_nanos + 1',
  one_usage_row_per_request: `INSERT INTO usage_event
    SELECT (jsonb_populate_record(u, jsonb_build_object('customer_id', gen_random_uuid()))).* FROM usage_event u`,
  cost_within_hold: 'UPDATE usage_event SET hold_nanos = cost_nanos - 1',
  cost_is_share_plus_fee: 'UPDATE usage_event SET fee_nanos = fee_nanos + 1',
  charges_have_a_transaction: 'UPDATE usage_event SET tx_id = NULL',
  failures_are_free: 'UPDATE usage_event SET success = false',
  charges_equal_customer_entries: 'UPDATE usage_event SET cost_nanos = cost_nanos - 1, fee_nanos = fee_nanos - 1',
  shares_equal_hoster_entries:
    'UPDATE usage_event SET hoster_share_nanos = hoster_share_nanos - 1, fee_nanos = fee_nanos + 1',
  fees_equal_revenue_entries:
    'UPDATE usage_event SET hoster_share_nanos = hoster_share_nanos + 1, fee_nanos = fee_nanos - 1',
  // A sum in the block of the world's transactions, which its entries do not have.
  archived_charges_equal_entries: `INSERT INTO usage_closing SELECT '2026-01-01', customer_id, '2026-01-01', NULL, 'm', 'local', NULL, NULL, NULL,
    0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0 FROM usage_event`,
  archives_equal_closings: `INSERT INTO usage_archive
    VALUES ('2026-01-01', gen_random_uuid(), gen_random_uuid(), now(), now(), 2, 1, 0, 'usage-2026-01.ndjson.gz', '')`,
  refunds_within_charges: 'UPDATE refund SET amount_nanos = 102',
  refunds_reverse_shares: 'UPDATE refund SET hoster_share_nanos = hoster_share_nanos + 1, fee_nanos = fee_nanos - 1',
  refunds_equal_entries: 'DELETE FROM refund',
  payments_equal_entries: 'UPDATE payment SET amount_nanos = amount_nanos + 1',
  credit_has_evidence: `UPDATE credit_evidence SET mac = sha256('forged')`,
  vouchers_have_evidence: `UPDATE voucher SET mac = NULL`,
  credit_is_not_dated_back: `UPDATE voucher SET made_at = '2026-01-01'`,
  reversals_within_payments: 'UPDATE payment_reversal SET taken_nanos = 1000',
  debts_equal_entries: 'UPDATE balance SET debt_nanos = 1',
  cell_moves_equal_entries: `INSERT INTO cell_move (move_id, customer_id, direction, cell, state, amount_nanos)
    SELECT gen_random_uuid(), customer_id, 'in', 'b', 'received', 1 FROM balance LIMIT 1`,
  debts_are_paid_first: 'UPDATE balance SET debt_nanos = 1',
  taken_credit_equals_entries: 'DELETE FROM credit_taken',
  cash_equals_payments: 'UPDATE payment SET fee_nanos = 1',
  payments_equal_charges:
    "SELECT note_payment_difference('stripe', 'ch_1', 'charge', 'second_charge', payment_id, 'pi_1', 5, 'usd', now()) FROM payment",
  hoster_days_equal_entries:
    'UPDATE hoster_day_change SET hoster_share_nanos = hoster_share_nanos + 1 WHERE requests > 0',
  hoster_days_equal_days: 'UPDATE hoster_day_change SET requests = 2 WHERE requests > 0',
  endpoint_days_equal_days: 'UPDATE endpoint_day SET fee_nanos = fee_nanos + 1',
  hoster_refunds_within_charges: 'UPDATE hoster_day_change SET refunded_nanos = 102 WHERE refunded_nanos > 0',
  hoster_movements_equal_entries: 'INSERT INTO hoster_movement SELECT gen_random_uuid(), max(tx_id), 5 FROM ledger_tx',
  payouts_equal_entries: plantedPayout(`'prepared', 10000000`),
  payouts_match_their_state: plantedPayout(`'prepared', 0`),
  clawbacks_equal_entries: `WITH h AS (${PLANTED_HOSTER})
    INSERT INTO clawback (clawback_id, hoster_id, cause, amount_nanos, reason) SELECT hoster_id, hoster_id, 'fraud', 5, '' FROM h`,
  one_hoster_per_payout_account: `WITH h AS (${PLANTED_HOSTER})
    INSERT INTO hoster_account (hoster_id, driver, state, destination) SELECT hoster_id, 'csv', 'ready', 'DE1' FROM h`,
  payout_accounts_equal_changes: `WITH h AS (${PLANTED_HOSTER})
    INSERT INTO payout_change (change_id, hoster_id, kind, driver, state, destination, identities, requested_at, effective_at, outcome, ended_at)
      SELECT hoster_id, hoster_id, 'account', 'csv', 'ready', 'DE1', '{}', now(), now(), 'applied', now() FROM h`,
  promotion_within_earnings: `WITH h AS (${PLANTED_HOSTER})
    INSERT INTO promotion_share (hoster_id, day, customer_id, share_nanos) SELECT hoster_id, '2026-01-01', hoster_id, 5 FROM h`,
  promotion_excess_equals_entries: `WITH h AS (${PLANTED_HOSTER})
    INSERT INTO promotion_day (hoster_id, day, share_nanos, budget_nanos, taken_nanos) SELECT hoster_id, '2026-01-01', 5, 0, 5 FROM h`,
  hours_equal_usage: 'UPDATE usage_hour SET latency_ms_sum = latency_ms_sum + 1',
  hours_equal_archived_days: `INSERT INTO usage_closing SELECT '2026-01-01', customer_id, started_at::date, NULL, 'm', 'local', NULL, NULL, NULL,
    NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM usage_event`,
  days_equal_usage: 'UPDATE usage_day SET latency_ms_sum = latency_ms_sum + 1',
  key_days_equal_usage: 'UPDATE usage_key_day SET cost_nanos = cost_nanos + 1',
  label_days_equal_usage: 'UPDATE usage_label_day SET requests = requests + 1',
  cost_within_token_prices: 'UPDATE usage_event SET input_tokens = input_tokens - 1',
  // 101 and 10 tokens. At most 100.4 and 9.05 are accepted.
  billed_within_count:
    'UPDATE usage_event SET counted_input_tokens = 88, output_tokens = 10, counted_output_tokens = 1',
  no_lease_outlives_its_node: `WITH watched AS (UPDATE node_heartbeat SET heartbeats = 901)
    UPDATE lease SET node_id = gen_random_uuid(), granted_at = now() - interval '1 hour'`,
  no_lease_outlives_its_request: `UPDATE lease SET lease_id = request_id, granted_at = now() - interval '6 minutes' FROM usage_event`,
  day_spend_equals_usage: 'UPDATE balance SET day_spent_nanos = day_spent_nanos + 1',
  day_leased_equals_open_leases: 'UPDATE balance SET day_leased_nanos = day_leased_nanos - 1',
  // 101 are charged and 300 held.
  day_spend_within_cap: 'UPDATE balance SET day_cap_nanos = 400',
  key_spend_equals_usage: 'UPDATE key_spend SET spent_nanos = spent_nanos + 1',
  key_leased_equals_open_leases: 'UPDATE key_spend SET leased_nanos = leased_nanos - 1',
  key_spend_within_limit: 'UPDATE api_key SET highest_limit_nanos = 400',
  member_spend_equals_usage: 'UPDATE member_spend SET spent_nanos = spent_nanos + 1',
  member_leased_equals_open_leases: 'UPDATE member_spend SET leased_nanos = leased_nanos - 1',
  member_spend_within_limit: 'UPDATE member_limit SET highest_limit_nanos = 400',
  windows_count_slots: 'UPDATE lease SET slots = 1000000',
  ledger_cannot_be_rewritten: `ALTER TABLE ledger_tx ENABLE TRIGGER USER; ALTER TABLE refund ENABLE TRIGGER USER; ALTER TABLE credit_taken ENABLE TRIGGER USER;
    ALTER TABLE credit_evidence ENABLE TRIGGER USER`,
  audit_log_is_unbroken: `SELECT add_audit_entry(NULL, 'x', 'planted', NULL, '{}', NULL); UPDATE audit_entry SET subject = 'y'`,
}

test('a ledger in use has no violations', async () => {
  const world = await worldInUse()
  expect(await audit(world.pool, { isEvidence })).toEqual(
    Object.keys(auditChecks).map(name => ({ name, violations: 0, examples: [] })),
  )
  await world.drop()
})

test.for(Object.keys(corruptions) as AuditCheck[])('%s finds what is planted for it', async name => {
  const world = await worldInUse()
  await world.pool.query(LIFT_PROTECTION)
  await world.pool.query(corruptions[name])
  const finding = (await audit(world.pool, { isEvidence })).find(finding => finding.name === name)
  expect(finding).toMatchObject({ violations: 1, examples: [expect.any(String)] })
  await world.drop()
})

test('after an outage, leases of dead nodes that no live node could reclaim yet are no violation', async () => {
  const world = await worldInUse()
  await world.pool.query(`UPDATE lease SET granted_at = now() - interval '1 hour'`)
  await world.pool.query('DELETE FROM node_heartbeat')
  await world.pool.query(`UPDATE node SET state = 'dead'`)
  expect(await world.violations()).toEqual([])
  const heir = await world.addNode()
  expect(await world.violations()).toEqual([])
  await world.pool.query('UPDATE node_heartbeat SET heartbeats = 901 WHERE node_id = $1', [heir.nodeId])
  expect(await world.violations()).toMatchObject([{ name: 'no_lease_outlives_its_node', violations: 1 }])
  await world.drop()
})

test.each([
  [
    'a lease that is older than any request',
    `UPDATE lease SET granted_at = now() - interval '25 hours'`,
    'no_lease_outlives_its_request',
  ],
  [
    'a charge that is not in the balance and has no lease',
    `UPDATE balance SET leased_nanos = 0, day_leased_nanos = 0; UPDATE key_spend SET leased_nanos = 0; UPDATE member_spend SET leased_nanos = 0;
     UPDATE lease SET settled_nanos = 7, slots = 0; UPDATE balance SET posted_nanos = posted_nanos + 7; DELETE FROM lease`,
    'balances_equal_entries',
  ],
  [
    'a charge above the price of its cached tokens',
    `UPDATE usage_event SET cache_read_tokens = 10, cache_read_pico_per_token = input_pico_per_token / 10;
     UPDATE usage_day SET cached_tokens = 10`,
    'cost_within_token_prices',
  ],
  [
    'a charge above the price of its media',
    `UPDATE usage_event SET other_parts = '[{"kind": "input_audio", "tokens": 10, "pico_per_token": 1}]'`,
    'cost_within_token_prices',
  ],
  [
    'cached tokens that the sums do not have',
    'UPDATE usage_event SET cache_read_tokens = 10, cache_read_pico_per_token = input_pico_per_token',
    'days_equal_usage',
  ],
  [
    'a charge for an answer that its server broke off',
    `UPDATE usage_event SET outcome = 'interrupted'`,
    'failures_are_free',
  ],
])('the audit finds %s', async (_, corruption, name) => {
  const world = await worldInUse()
  await world.pool.query(corruption)
  expect(await world.violations()).toMatchObject([{ name, violations: 1 }])
  await world.drop()
})

test('a client that left a stream and paid, and a failure that was free, are no violation', async () => {
  const world = await worldInUse()
  await world.pool.query(`UPDATE usage_event SET outcome = 'client_gone'`)
  const { ledger } = await world.addNode()
  const failed = admissionOf(await world.addCustomer(1_000n), 100n)
  await ledger.admit(failed)
  await settle(ledger, { ...settlementOf(failed, 100n, 0n), success: false, outcome: 'interrupted' })
  expect(await world.violations()).toEqual([])
  await world.drop()
})

// Two checks used to scan a list of all refunds for each entry, which takes hours with half a million refunds.
test('no check scans one table for each row of another, even with little memory for hash tables', async () => {
  const world = await createLedgerWorld()
  await transaction(world.pool, async sql => {
    await sql.query(`INSERT INTO ledger_tx (kind, ref) SELECT 'refund', n::text FROM generate_series(1, 5000) AS n`)
    await sql.query(`INSERT INTO ledger_entry SELECT tx_id, 'hoster_payable', gen_random_uuid(), -1 FROM ledger_tx`)
    await sql.query('ANALYZE ledger_tx, ledger_entry')
    await sql.query(`SET LOCAL work_mem = '64kB'`)
    const slices = await planAudit(sql)
    for (const [name, check] of Object.entries(auditChecks)) {
      const slice = slices.find(({ by }) => by === check.by)!
      const range = check.by === 'all' ? [] : [slice.from, slice.to]
      const { rows } = await sql.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${check.sql}`, range)
      expect(rows.map(row => row['QUERY PLAN']).join('\n'), name).not.toContain('SubPlan')
    }
  })
  await world.drop()
})

test('the ledger cannot be rewritten', async () => {
  const world = await worldInUse()
  await expect(world.pool.query('UPDATE ledger_entry SET amount_nanos = 1')).rejects.toThrow('append only')
  await expect(world.pool.query('DELETE FROM ledger_tx')).rejects.toThrow('append only')
  await expect(world.pool.query('TRUNCATE ledger_entry')).rejects.toThrow('append only')
  await expect(world.pool.query('DELETE FROM refund')).rejects.toThrow('append only')
  await expect(world.pool.query('UPDATE usage_closing SET requests = 1')).rejects.toThrow('append only')
  await world.drop()
})

/**
 * A customer with a charge of 101 nano-USD, 50 of it refunded, and an open lease, both for a key and a
 * member with spend limits.
 */
async function worldInUse(): Promise<LedgerWorld> {
  const world = await createLedgerWorld()
  const { ledger } = await world.addNode()
  const customerId = await world.addCustomer(1_000n)
  const keyLimit = { limitNanos: 500n, reset: 'weekly' } as const
  const memberLimit = await addLimitedMember(world.pool, customerId, { limitNanos: 600n, reset: 'monthly' })
  const { personId } = memberLimit
  const { keyId } = await issueKey(world.pool, { customerId, name: 'limited', limit: keyLimit, personId })
  const [served, open] = [200n, 300n].map(nanos => admissionOf(customerId, nanos, { keyId, keyLimit, memberLimit }))
  await Promise.all([served!, open!].map(admission => ledger.admit(admission)))
  await settle(ledger, settlementOf(served!, 200n, 101n, { countedInputTokens: 101, label: 'a' }))
  await refundRequest(world.pool, { customerId, requestId: served!.requestId, amountNanos: 50n, reason: 'a test' })
  const paymentId = randomUUID()
  await world.pool.query("SELECT start_payment($1, $2, 'manual', 50, 1, 'usd', true, 'ref', NULL, NULL, NULL, NULL)", [
    paymentId,
    customerId,
  ])
  await world.pool.query('SELECT book_manual_payment($1)', [paymentId])
  await evidence.add(world.pool, 'payment', paymentId)
  const voucherId = randomUUID()
  await world.pool.query("SELECT make_voucher($1, sha256('x'), 'x', 5, '', false, NULL, now())", [voucherId])
  await evidence.addVoucher(world.pool, voucherId, 5n)
  await world.pool.query("SELECT reverse_payment(gen_random_uuid(), $1, 20, NULL, false, 'a test')", [paymentId])
  return world
}

const LIFT_PROTECTION = `
DO $$
DECLARE c record;
BEGIN
  ALTER TABLE ledger_tx DISABLE TRIGGER USER;
  ALTER TABLE ledger_entry DISABLE TRIGGER USER;
  ALTER TABLE refund DISABLE TRIGGER USER;
  ALTER TABLE credit_evidence DISABLE TRIGGER USER;
  ALTER TABLE credit_taken DISABLE TRIGGER USER;
  ALTER TABLE balance DISABLE TRIGGER USER;
  FOR c IN SELECT conrelid::regclass AS relation, conname FROM pg_constraint
    WHERE contype = 'c' AND coninhcount = 0 AND conrelid IN ('usage_event'::regclass, 'balance'::regclass, 'lease'::regclass, 'refund'::regclass) LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.relation, c.conname);
  END LOOP;
END $$`
