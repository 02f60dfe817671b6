import { RATIO_MAX, REPORT_SLACK, REPORT_SLACK_TOKENS } from '../../../base/domain/meter-ratio.ts'

export type AuditCheck = keyof typeof auditChecks

export interface AuditFinding {
  readonly name: AuditCheck
  readonly violations: number
  /**
   * Up to five violations: transaction, customer, request, hoster or payout ids, with the hour or day where that
   * matters.
   */
  readonly examples: readonly string[]
}

/**
 * What a check is divided by. Each slice is a range from $1 to $2, both included: of transaction ids, customer ids,
 * request ids, hoster ids or days. Checks by `all` have no parameters.
 */
export type SlicedBy = 'transactions' | 'customers' | 'requests' | 'hosters' | 'days' | 'logEntries' | 'all'

export interface SlicedCheck {
  readonly by: SlicedBy
  /** Selects the ids that violate the check in a slice. With `isEvidence`, selects ids, facts and evidence of all. */
  readonly sql: string
  /** The key of the evidence is not in the database. */
  readonly isEvidence?: true
}

/** The most tokens of a report that are billed for one that the gateway counts. */
const REPORT_MAX = RATIO_MAX * REPORT_SLACK

const slicedBy = (by: SlicedBy) => (sql: string) => ({ by, sql })
const transactions = slicedBy('transactions')
const customers = slicedBy('customers')
const requests = slicedBy('requests')
const hosters = slicedBy('hosters')
const days = slicedBy('days')
const logEntries = slicedBy('logEntries')
const all = slicedBy('all')

const ofTransactions = (table: string, alias = table) =>
  `(SELECT * FROM ${table} WHERE tx_id BETWEEN $1::bigint AND $2) AS ${alias}`
const ofCustomers = (table: string, alias = table) =>
  `(SELECT * FROM ${table} WHERE customer_id BETWEEN $1 AND $2) AS ${alias}`

/** Archived charges. Slices of transactions are whole blocks. */
const ofBlocks = `(SELECT * FROM usage_closing WHERE tx_block BETWEEN $1::bigint >> 16 AND $2::bigint >> 16) AS usage_closing`

/** True for a transaction `tx_id` in a block without archived charges: it is compared alone, not with its block. */
const isOpenTx = `NOT EXISTS (SELECT FROM ${ofBlocks} WHERE tx_block = tx_id >> 16)`

/** What the parts of a usage row cost beyond its input and output price, in picodollars. */
const PART_PICOS = `
      coalesce(cache_read_tokens::numeric * (cache_read_pico_per_token - input_pico_per_token), 0)
      + coalesce(cache_write_tokens::numeric * (cache_write_pico_per_token - input_pico_per_token), 0)
      + coalesce(other_parts_surcharge_picos(other_parts, input_pico_per_token, output_pico_per_token), 0)`

/**
 * Keys and members have limits in windows of time, in tables of the same shape: `key_spend` and `member_spend`, and
 * columns of the same names in usage rows and leases.
 *
 * @param id the column of the spend table that names the key or the member
 */
const spendEqualsUsage = (of: 'key' | 'member', id: string) =>
  customers(`
    SELECT concat_ws(' ', customer_id, ${of}_id, ${of}_window)
    FROM (
      SELECT customer_id, ${id} AS ${of}_id, window_start AS ${of}_window, spent_nanos - before_nanos AS spent
      FROM ${ofCustomers(`${of}_spend`)}
    ) s
    FULL JOIN (
      SELECT customer_id, ${of}_id, ${of}_window, sum(cost) AS cost
      FROM (
        SELECT customer_id, ${of}_id, ${of}_window, sum(cost_nanos) AS cost FROM ${ofCustomers('usage_row')} WHERE ${of}_window IS NOT NULL
        GROUP BY customer_id, ${of}_id, ${of}_window
        UNION ALL
        SELECT customer_id, ${of}_id, ${of}_window, cost_nanos FROM ${ofCustomers('usage_closing')} WHERE ${of}_window IS NOT NULL
      ) parts GROUP BY customer_id, ${of}_id, ${of}_window
    ) u USING (customer_id, ${of}_id, ${of}_window)
    WHERE coalesce(s.spent, 0) <> coalesce(u.cost, 0)`)

/** @param id as for `spendEqualsUsage` */
const leasedEqualsOpenLeases = (of: 'key' | 'member', id: string) =>
  customers(`
    SELECT concat_ws(' ', customer_id, ${of}_id, ${of}_window)
    FROM (
      SELECT customer_id, ${id} AS ${of}_id, window_start AS ${of}_window, leased_nanos AS leased FROM ${ofCustomers(`${of}_spend`)}
    ) s
    FULL JOIN (
      SELECT customer_id, ${of}_id, ${of}_window, sum(granted_nanos) AS granted FROM ${ofCustomers('lease')} WHERE ${of}_window IS NOT NULL
      GROUP BY customer_id, ${of}_id, ${of}_window
    ) l USING (customer_id, ${of}_id, ${of}_window)
    WHERE coalesce(s.leased, 0) <> coalesce(l.granted, 0)`)

/**
 * docs/money.md says what each check proves. Each check is one statement, so it has a snapshot of its own. The checks
 * use NOT EXISTS instead of NOT IN: when the list of a NOT IN exceeds `work_mem` (200,000 refunds for example),
 * PostgreSQL scans the whole list for each row.
 */
export const auditChecks = {
  transactions_sum_to_zero: transactions(`
    SELECT tx_id::text FROM ${ofTransactions('ledger_entry')} GROUP BY tx_id HAVING sum(amount_nanos) <> 0`),
  ledger_sums_to_zero: transactions(`
    SELECT concat('transactions ', min(tx_id), ' to ', max(tx_id), ': ', sum(amount_nanos)) FROM ${ofTransactions('ledger_entry')} HAVING sum(amount_nanos) <> 0`),
  entries_have_a_transaction: transactions(`
    SELECT DISTINCT tx_id::text FROM ${ofTransactions('ledger_entry', 'e')} WHERE NOT EXISTS (SELECT FROM ${ofTransactions('ledger_tx', 't')} WHERE t.tx_id = e.tx_id)`),
  transactions_have_entries: transactions(`
    SELECT tx_id::text FROM ${ofTransactions('ledger_tx', 't')} WHERE NOT EXISTS (SELECT FROM ${ofTransactions('ledger_entry', 'e')} WHERE e.tx_id = t.tx_id)`),
  one_signup_credit_per_customer: customers(`
    SELECT account_id::text FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
    WHERE t.kind = 'signup_credit' AND e.account_kind = 'customer' AND e.account_id BETWEEN $1 AND $2 GROUP BY account_id HAVING count(*) > 1`),
  balances_cover_their_leases: customers(`
    SELECT customer_id::text FROM ${ofCustomers('balance')} WHERE leased_nanos < 0 OR posted_nanos < leased_nanos`),
  balances_equal_entries: customers(`
    SELECT coalesce(b.customer_id, e.account_id)::text
    FROM ${ofCustomers('balance', 'b')}
    LEFT JOIN (SELECT customer_id, sum(settled_nanos) AS settled FROM ${ofCustomers('lease')} GROUP BY customer_id) l USING (customer_id)
    FULL JOIN (
      SELECT account_id, sum(amount_nanos) AS amount FROM ledger_entry WHERE account_kind = 'customer' AND account_id BETWEEN $1 AND $2 GROUP BY account_id
    ) e ON e.account_id = b.customer_id
    WHERE coalesce(b.posted_nanos, 0) - coalesce(l.settled, 0) <> coalesce(e.amount, 0)`),
  leased_equals_open_leases: customers(`
    SELECT coalesce(b.customer_id, l.customer_id)::text
    FROM ${ofCustomers('balance', 'b')} FULL JOIN (
      SELECT customer_id, sum(granted_nanos) AS granted FROM ${ofCustomers('lease')} GROUP BY customer_id
    ) l USING (customer_id)
    WHERE coalesce(b.leased_nanos, 0) <> coalesce(l.granted, 0)`),
  settled_within_granted: customers(`
    SELECT lease_id::text FROM ${ofCustomers('lease')} WHERE settled_nanos < 0 OR settled_nanos > granted_nanos OR (slots IS NULL AND settled_nanos > 0)`),
  one_usage_row_per_request: requests(`
    SELECT request_id::text FROM usage_row WHERE request_id BETWEEN $1 AND $2 GROUP BY request_id HAVING count(*) > 1`),
  cost_within_hold: customers(`
    SELECT request_id::text FROM ${ofCustomers('usage_row')} WHERE cost_nanos < 0 OR cost_nanos > hold_nanos`),
  cost_is_share_plus_fee: customers(`
    SELECT request_id::text FROM ${ofCustomers('usage_row')} WHERE cost_nanos <> hoster_share_nanos + fee_nanos OR hoster_share_nanos < 0 OR fee_nanos < 0`),
  charges_have_a_transaction: customers(`
    SELECT request_id::text FROM ${ofCustomers('usage_row')} WHERE (cost_nanos > 0) <> (tx_id IS NOT NULL)`),
  failures_are_free: customers(`
    SELECT request_id::text FROM ${ofCustomers('usage_row')} WHERE cost_nanos > 0 AND (NOT success OR outcome NOT IN ('served', 'client_gone'))`),
  charges_equal_customer_entries: transactions(`
    SELECT coalesce(u.tx_id, e.tx_id)::text
    FROM (SELECT tx_id, customer_id, sum(cost_nanos) AS cost FROM ${ofTransactions('usage_row')} WHERE tx_id IS NOT NULL AND ${isOpenTx}
      GROUP BY tx_id, customer_id) u
    FULL JOIN (
      SELECT e.tx_id, e.account_id, e.amount_nanos FROM ${ofTransactions('ledger_entry', 'e')} JOIN ${ofTransactions('ledger_tx', 't')} USING (tx_id)
      WHERE t.kind = 'settle' AND e.account_kind = 'customer' AND ${isOpenTx}
    ) e ON e.tx_id = u.tx_id AND e.account_id = u.customer_id
    WHERE coalesce(u.cost, 0) <> -coalesce(e.amount_nanos, 0)`),
  shares_equal_hoster_entries: transactions(`
    SELECT coalesce(u.tx_id, e.tx_id)::text
    FROM (
      SELECT tx_id, hoster_id, sum(hoster_share_nanos) AS share FROM ${ofTransactions('usage_row')}
      WHERE hoster_share_nanos > 0 AND ${isOpenTx} GROUP BY tx_id, hoster_id
    ) u
    FULL JOIN (
      SELECT tx_id, account_id, amount_nanos FROM ${ofTransactions('ledger_entry', 'e')}
      WHERE account_kind = 'hoster_payable' AND ${isOpenTx} AND NOT EXISTS (SELECT FROM ${ofTransactions('ledger_tx', 't')} WHERE t.tx_id = e.tx_id AND t.kind <> 'settle')
    ) e ON e.tx_id = u.tx_id AND e.account_id = u.hoster_id
    WHERE coalesce(u.share, 0) <> coalesce(e.amount_nanos, 0)`),
  fees_equal_revenue_entries: transactions(`
    SELECT coalesce(u.tx_id, e.tx_id)::text
    FROM (SELECT tx_id, sum(fee_nanos) AS fee FROM ${ofTransactions('usage_row')} WHERE fee_nanos > 0 AND ${isOpenTx} GROUP BY tx_id) u
    FULL JOIN (
      SELECT tx_id, amount_nanos FROM ${ofTransactions('ledger_entry', 'e')}
      WHERE account_kind = 'platform_revenue' AND ${isOpenTx} AND NOT EXISTS (SELECT FROM ${ofTransactions('ledger_tx', 't')} WHERE t.tx_id = e.tx_id AND t.kind <> 'settle')
    ) e USING (tx_id)
    WHERE coalesce(u.fee, 0) <> coalesce(e.amount_nanos, 0)`),
  // Blocks of transactions with archived charges. They may have charges that are not archived too.
  archived_charges_equal_entries: transactions(`
    WITH block AS (SELECT DISTINCT tx_block FROM ${ofBlocks} WHERE tx_block IS NOT NULL)
    SELECT concat_ws(' ', 'transactions', tx_block << 16, 'to', ((tx_block + 1) << 16) - 1, kind, account)
    FROM (
      SELECT tx_block, a.kind, a.account, sum(a.amount) AS amount
      FROM (
        SELECT tx_block, customer_id, hoster_id, cost_nanos, hoster_share_nanos, fee_nanos FROM ${ofBlocks} WHERE tx_block IS NOT NULL
        UNION ALL
        SELECT tx_block, customer_id, hoster_id, cost_nanos, hoster_share_nanos, fee_nanos FROM ${ofTransactions('usage_row')} JOIN block ON tx_block = tx_id >> 16
      ) c, LATERAL (VALUES
        ('customer', customer_id, -cost_nanos),
        ('hoster_payable', hoster_id, hoster_share_nanos),
        ('platform_revenue', platform_account(), fee_nanos)
      ) AS a(kind, account, amount) WHERE a.amount <> 0 GROUP BY 1, 2, 3
    ) c
    FULL JOIN (
      SELECT tx_block, e.account_kind AS kind, e.account_id AS account, sum(e.amount_nanos) AS amount
      FROM ${ofTransactions('ledger_entry', 'e')} JOIN block ON tx_block = e.tx_id >> 16 JOIN ${ofTransactions('ledger_tx', 't')} ON t.tx_id = e.tx_id
      WHERE t.kind = 'settle' GROUP BY 1, 2, 3
    ) e USING (tx_block, kind, account)
    WHERE coalesce(c.amount, 0) <> coalesce(e.amount, 0)`),
  archives_equal_closings: all(`
    SELECT to_char(month, 'YYYY-MM')
    FROM (SELECT month, requests - kept_requests AS requests FROM usage_archive WHERE archived_at IS NOT NULL) a
    FULL JOIN (SELECT month, sum(requests) AS requests FROM usage_closing GROUP BY month) c USING (month)
    WHERE coalesce(a.requests, 0) <> coalesce(c.requests, 0)`),
  refunds_within_charges: customers(`
    SELECT r.request_id::text FROM ${ofCustomers('refund', 'r')} LEFT JOIN ${ofCustomers('usage_row', 'u')} USING (customer_id, request_id)
    WHERE (r.amount_nanos > 0 AND r.amount_nanos <= u.cost_nanos AND r.started_at = u.started_at) IS NOT TRUE`),
  refunds_reverse_shares: customers(`
    SELECT r.request_id::text FROM ${ofCustomers('refund', 'r')} JOIN ${ofCustomers('usage_row', 'u')} USING (customer_id, request_id)
    WHERE r.hoster_share_nanos <> div(u.hoster_share_nanos::numeric * r.amount_nanos, nullif(u.cost_nanos, 0))
      OR r.fee_nanos <> r.amount_nanos - r.hoster_share_nanos`),
  refunds_equal_entries: transactions(`
    SELECT coalesce(r.tx_id, e.tx_id)::text
    FROM (
      SELECT r.tx_id, r.request_id::text AS ref, a.kind, a.account, a.amount
      FROM ${ofTransactions('refund', 'r')} JOIN usage_row u USING (customer_id, request_id), LATERAL (VALUES
        ('customer', r.customer_id, r.amount_nanos),
        ('hoster_payable', u.hoster_id, -r.hoster_share_nanos),
        ('platform_revenue', platform_account(), -r.fee_nanos)
      ) AS a(kind, account, amount) WHERE a.amount <> 0
    ) r
    FULL JOIN (
      SELECT t.tx_id, t.ref, e.account_kind, e.account_id, e.amount_nanos
      FROM ${ofTransactions('ledger_tx', 't')} JOIN ${ofTransactions('ledger_entry', 'e')} USING (tx_id) WHERE t.kind = 'refund'
    ) e ON (e.tx_id, e.ref, e.account_kind, e.account_id, e.amount_nanos) = (r.tx_id, r.ref, r.kind, r.account, r.amount)
    WHERE r.tx_id IS NULL OR e.tx_id IS NULL
    GROUP BY 1`),
  payments_equal_entries: transactions(`
    SELECT coalesce(p.tx_id, e.tx_id)::text
    FROM (
      SELECT p.tx_id, CASE p.driver WHEN 'voucher' THEN 'voucher' ELSE 'payment' END AS kind,
        CASE p.driver WHEN 'voucher' THEN v.voucher_id ELSE p.payment_id END::text AS ref, a.account_kind, a.account, a.amount
      FROM ${ofTransactions('payment', 'p')} LEFT JOIN voucher v USING (payment_id), LATERAL (VALUES
        ('customer', p.customer_id, p.amount_nanos),
        (CASE WHEN p.is_promotion THEN 'platform_promo' ELSE 'cash' END, platform_account(), -p.amount_nanos)
      ) AS a(account_kind, account, amount)
    ) p
    FULL JOIN (
      SELECT t.tx_id, t.kind, t.ref, e.account_kind, e.account_id, e.amount_nanos
      FROM ${ofTransactions('ledger_tx', 't')} JOIN ${ofTransactions('ledger_entry', 'e')} USING (tx_id) WHERE t.kind IN ('payment', 'voucher')
    ) e ON (e.tx_id, e.kind, e.ref, e.account_kind, e.account_id, e.amount_nanos) = (p.tx_id, p.kind, p.ref, p.account_kind, p.account, p.amount)
    WHERE p.tx_id IS NULL OR e.tx_id IS NULL
    GROUP BY 1`),
  credit_has_evidence: {
    ...transactions(`
      SELECT tx_id::text AS id, facts, mac FROM ${ofTransactions('given_credit')} LEFT JOIN ${ofTransactions('credit_evidence')} USING (tx_id)
      WHERE tx_id > (SELECT tx_id FROM credit_evidence_start)`),
    isEvidence: true,
  },
  vouchers_have_evidence: {
    ...all(`
      SELECT voucher_id::text AS id, ARRAY['made voucher', voucher_id::text, amount_nanos::text] AS facts, mac
      FROM voucher WHERE made_at > (SELECT at FROM credit_evidence_start)`),
    isEvidence: true,
  },
  credit_is_not_dated_back: all(`
    SELECT 'credits' FROM credit_evidence_start s, LATERAL (
      SELECT count(*) AS credits, coalesce(sum(amount_nanos), 0) AS nanos FROM given_credit WHERE tx_id <= s.tx_id) g
    WHERE (g.credits, g.nanos) <> (s.credits, s.credit_nanos)
    UNION ALL
    SELECT 'vouchers' FROM credit_evidence_start s, LATERAL (
      SELECT count(*) AS vouchers, coalesce(sum(amount_nanos), 0) AS nanos FROM voucher WHERE made_at <= s.at) v
    WHERE (v.vouchers, v.nanos) <> (s.vouchers, s.voucher_nanos)
    UNION ALL
    SELECT 'the beginning of evidence' FROM credit_evidence_start HAVING count(*) <> 1`),
  reversals_within_payments: customers(`
    SELECT payment_id::text FROM ${ofCustomers('payment', 'p')} JOIN ${ofCustomers('payment_reversal', 'r')} USING (payment_id)
    GROUP BY payment_id, p.amount_nanos, p.tx_id
    HAVING sum(r.taken_nanos - r.returned_nanos) > CASE WHEN p.tx_id IS NULL THEN 0 ELSE p.amount_nanos END`),
  debts_equal_entries: customers(`
    SELECT coalesce(b.customer_id, e.account_id)::text
    FROM ${ofCustomers('balance', 'b')} FULL JOIN (
      SELECT account_id, sum(amount_nanos) AS amount FROM ledger_entry WHERE account_kind = 'customer_debt' AND account_id BETWEEN $1 AND $2 GROUP BY account_id
    ) e ON e.account_id = b.customer_id
    WHERE coalesce(b.debt_nanos, 0) <> -coalesce(e.amount, 0)`),
  debts_are_paid_first: customers(`
    SELECT customer_id::text FROM ${ofCustomers('balance')} WHERE debt_nanos < 0 OR (debt_nanos > 0 AND posted_nanos <> leased_nanos)`),
  cell_moves_equal_entries: customers(`
    SELECT coalesce(m.customer_id, e.account_id)::text
    FROM (
      SELECT customer_id, sum(CASE direction WHEN 'out' THEN amount_nanos ELSE -amount_nanos END) AS amount
      FROM ${ofCustomers('cell_move')} WHERE state IN ('sent', 'done', 'received') GROUP BY customer_id
    ) m
    FULL JOIN (
      SELECT account_id, sum(amount_nanos) AS amount FROM ledger_entry
      WHERE account_kind IN ('cell_clearing', 'cell_promo') AND account_id BETWEEN $1 AND $2 GROUP BY account_id
    ) e ON e.account_id = m.customer_id
    WHERE coalesce(m.amount, 0) <> coalesce(e.amount, 0)`),
  taken_credit_equals_entries: transactions(`
    SELECT coalesce(c.tx_id, e.tx_id)::text FROM ${ofTransactions('credit_taken', 'c')}
    FULL JOIN (
      SELECT e.tx_id, e.account_id, e.amount_nanos FROM ${ofTransactions('ledger_entry', 'e')} JOIN ${ofTransactions('ledger_tx', 't')} USING (tx_id)
      WHERE e.account_kind = 'customer' AND e.amount_nanos < 0 AND t.kind <> 'settle'
    ) e ON e.tx_id = c.tx_id AND e.account_id = c.customer_id
    WHERE coalesce(c.amount_nanos, 0) <> -coalesce(e.amount_nanos, 0)`),
  // What payments brought in, less what went back, the fees and what was paid out. Grants and the books of another
  // installation are outside: no table has their money.
  cash_equals_payments: all(`
    SELECT concat('entries ', e.amount, ', payments ', p.amount)
    FROM (
      SELECT coalesce(-sum(amount_nanos), 0) AS amount FROM ledger_entry JOIN ledger_tx USING (tx_id)
      WHERE account_kind = 'cash' AND kind NOT IN ('credit', 'opening_balance')
    ) e, (
      SELECT (SELECT coalesce(sum(CASE WHEN tx_id IS NOT NULL THEN amount_nanos ELSE 0 END - fee_nanos), 0) FROM payment WHERE NOT is_promotion)
        - (SELECT coalesce(sum(taken_nanos - returned_nanos), 0) FROM payment_reversal JOIN payment USING (payment_id) WHERE NOT is_promotion)
        - (SELECT coalesce(sum(paid_nanos), 0) FROM payout) AS amount
    ) p
    WHERE e.amount <> p.amount`),
  // Found by asking the providers, see compare-charges.ts: charges without a credit, credits without a charge,
  // reversals that are not booked.
  payments_equal_charges: all(`
    SELECT concat_ws(' ', driver, ref, problem) FROM payment_difference WHERE ended_at IS NULL`),
  hoster_days_equal_entries: hosters(`
    SELECT concat_ws(' ', coalesce(l.hoster_id, e.hoster_id), e.kind)
    FROM (
      SELECT hoster_id, a.kind, sum(a.amount) AS amount
      FROM hoster_line, LATERAL (VALUES ('settle', hoster_share_nanos), ('refund', -refunded_share_nanos)) AS a(kind, amount)
      WHERE hoster_id BETWEEN $1 AND $2 GROUP BY 1, 2
    ) l
    FULL JOIN (
      SELECT e.account_id AS hoster_id, t.kind, sum(e.amount_nanos) AS amount FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
      WHERE e.account_kind = 'hoster_payable' AND e.account_id BETWEEN $1 AND $2 AND t.kind IN ('settle', 'refund') GROUP BY 1, 2
    ) e USING (hoster_id, kind)
    WHERE coalesce(l.amount, 0) <> coalesce(e.amount, 0)`),
  hoster_days_equal_days: days(`
    SELECT concat_ws(' ', day, model_id)
    FROM (
      SELECT day, model_id, sum(requests) AS requests, sum(successes) AS successes, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cost_nanos) AS cost, sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee
      FROM hoster_line WHERE day BETWEEN $1::date AND $2::date GROUP BY 1, 2
      -- Refunds alone.
      HAVING sum(requests) <> 0
    ) h
    FULL JOIN (
      SELECT day, model_id, sum(requests) AS requests, sum(successes) AS successes, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cost_nanos) AS cost, sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee
      FROM usage_day WHERE provider = 'hoster' AND day BETWEEN $1::date AND $2::date GROUP BY 1, 2
    ) u USING (day, model_id)
    WHERE (h.requests, h.successes, h.input_tokens, h.output_tokens, h.cost, h.share, h.fee)
      IS DISTINCT FROM (u.requests, u.successes, u.input_tokens, u.output_tokens, u.cost, u.share, u.fee)`),
  endpoint_days_equal_days: days(`
    SELECT concat_ws(' ', day, model_id, provider)
    FROM (
      SELECT day, model_id, provider, sum(requests) AS requests, sum(cost_nanos) AS cost, sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee,
        sum(upstream_cost_nanos) AS upstream, sum(costed_nanos) AS costed
      FROM endpoint_day WHERE day BETWEEN $1::date AND $2::date GROUP BY 1, 2, 3
    ) e
    FULL JOIN (
      SELECT day, model_id, provider, sum(requests) AS requests, sum(cost_nanos) AS cost, sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee,
        sum(upstream_cost_nanos) AS upstream, sum(costed_nanos) AS costed
      FROM usage_day WHERE provider <> 'none' AND day BETWEEN $1::date AND $2::date GROUP BY 1, 2, 3
    ) u USING (day, model_id, provider)
    WHERE (e.requests, e.cost, e.share, e.fee, e.upstream, e.costed)
        IS DISTINCT FROM (u.requests, u.cost, u.share, u.fee, u.upstream, u.costed)
      AND day >= (SELECT value::date FROM installation WHERE name = 'endpoint_days_from')`),
  hoster_refunds_within_charges: hosters(`
    SELECT concat_ws(' ', hoster_id, day, model_id) FROM hoster_line WHERE hoster_id BETWEEN $1 AND $2 GROUP BY hoster_id, day, model_id
    HAVING sum(refunded_nanos) > sum(cost_nanos) OR sum(refunded_share_nanos) > sum(hoster_share_nanos)`),
  hoster_movements_equal_entries: transactions(`
    SELECT coalesce(m.tx_id, e.tx_id)::text FROM ${ofTransactions('hoster_movement', 'm')}
    FULL JOIN (
      SELECT e.tx_id, e.account_id, e.amount_nanos FROM ${ofTransactions('ledger_entry', 'e')} JOIN ${ofTransactions('ledger_tx', 't')} USING (tx_id)
      WHERE e.account_kind = 'hoster_payable' AND t.kind NOT IN ('settle', 'refund')
    ) e ON e.tx_id = m.tx_id AND e.account_id = m.hoster_id
    WHERE coalesce(m.amount_nanos, 0) <> coalesce(e.amount_nanos, 0)`),
  // The number of a transaction follows the id of its payout.
  payouts_equal_entries: all(`
    SELECT coalesce(p.payout_id::text, e.payout_id)
    FROM (
      SELECT payout_id, a.kind, a.account, a.amount FROM payout, LATERAL (VALUES
        ('hoster_payable', hoster_id, -taken_nanos),
        ('payout_clearing', platform_account(), taken_nanos - paid_nanos),
        ('cash', platform_account(), paid_nanos)
      ) AS a(kind, account, amount) WHERE a.amount <> 0
    ) p
    FULL JOIN (
      SELECT split_part(t.ref, ':', 1) AS payout_id, e.account_kind AS kind, e.account_id AS account, sum(e.amount_nanos) AS amount
      FROM ledger_tx t JOIN ledger_entry e USING (tx_id) WHERE t.kind IN ('payout', 'payout_paid', 'payout_returned') GROUP BY 1, 2, 3
      HAVING sum(e.amount_nanos) <> 0
    ) e ON (e.payout_id, e.kind, e.account) = (p.payout_id::text, p.kind, p.account)
    WHERE coalesce(p.amount, 0) <> coalesce(e.amount, 0)
    GROUP BY 1`),
  payouts_match_their_state: all(`
    SELECT payout_id::text FROM payout WHERE CASE
      WHEN state IN ('prepared', 'approved', 'sending') THEN taken_nanos <> amount_nanos OR paid_nanos <> 0
      WHEN state = 'paid' THEN taken_nanos <> paid_nanos OR paid_nanos <= 0 OR paid_nanos > amount_nanos
      ELSE taken_nanos <> 0 OR paid_nanos <> 0 END
    UNION ALL
    SELECT b.batch_id::text FROM payout_batch b JOIN payout p USING (batch_id) GROUP BY b.batch_id
    HAVING (b.state IN ('settled', 'cancelled')) = bool_or(p.state IN ('prepared', 'approved', 'sending'))
      OR (b.approved_at IS NULL AND bool_or(p.state IN ('approved', 'sending', 'paid', 'failed', 'returned')))`),
  clawbacks_equal_entries: all(`
    SELECT coalesce(c.ref, e.ref)
    FROM (
      SELECT clawback_id::text AS ref, a.kind, hoster_id, a.amount FROM clawback, LATERAL (VALUES
        ('clawback', -amount_nanos), ('clawback_returned', CASE WHEN returned_at IS NOT NULL THEN amount_nanos END)
      ) AS a(kind, amount) WHERE a.amount IS NOT NULL
    ) c
    FULL JOIN (
      SELECT t.ref, t.kind, e.account_id, e.amount_nanos FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
      WHERE t.kind IN ('clawback', 'clawback_returned') AND e.account_kind = 'hoster_payable'
    ) e ON (e.ref, e.kind, e.account_id, e.amount_nanos) = (c.ref, c.kind, c.hoster_id, c.amount)
    WHERE c.ref IS NULL OR e.ref IS NULL`),
  one_hoster_per_payout_account: all(`
    SELECT a.hoster_id::text FROM hoster_account a
    WHERE a.state IN ('pending', 'ready') AND NOT EXISTS (
      SELECT FROM payout_identity i WHERE i.identity = a.driver || ':' || a.destination AND i.hoster_id = a.hoster_id)`),
  // Accounts of older versions have no change.
  payout_accounts_equal_changes: all(`
    SELECT c.hoster_id::text FROM payout_change c LEFT JOIN hoster_account a USING (hoster_id) WHERE c.outcome = 'applied' GROUP BY c.hoster_id, c.kind
    HAVING NOT bool_or(CASE c.kind WHEN 'customer' THEN a.customer_id = c.customer_id
      ELSE (a.driver, a.destination, a.holder, a.identities) IS NOT DISTINCT FROM (c.driver, c.destination, c.holder, c.identities) END IS TRUE)
    UNION ALL
    SELECT change_id::text FROM payout_change WHERE outcome = 'applied' AND ended_at < effective_at`),
  promotion_within_earnings: all(`
    SELECT concat_ws(' ', hoster_id, day)
    FROM (SELECT hoster_id, day, sum(share_nanos) AS share FROM promotion_share GROUP BY 1, 2) s
    FULL JOIN promotion_day d USING (hoster_id, day)
    LEFT JOIN (SELECT hoster_id, day, sum(hoster_share_nanos) AS share FROM hoster_line GROUP BY 1, 2) l USING (hoster_id, day)
    WHERE coalesce(s.share, 0) > coalesce(l.share, 0) OR d.share_nanos <> coalesce(s.share, 0)`),
  promotion_excess_equals_entries: all(`
    SELECT coalesce(d.ref, e.ref)
    FROM (SELECT hoster_id || ':' || day AS ref, hoster_id, taken_nanos FROM promotion_day WHERE taken_nanos > 0) d
    FULL JOIN (
      SELECT regexp_replace(t.ref, ':[^:]*$', '') AS ref, e.account_id, -sum(e.amount_nanos) AS taken_nanos FROM ledger_tx t JOIN ledger_entry e USING (tx_id)
      WHERE t.kind <> 'settle' AND t.kind = 'promotion_excess' AND e.account_kind = 'hoster_payable' GROUP BY 1, 2
    ) e ON (e.ref, e.account_id, e.taken_nanos) = (d.ref, d.hoster_id, d.taken_nanos)
    WHERE d.ref IS NULL OR e.ref IS NULL`),
  hours_equal_usage: customers(`
    SELECT customer_id || ' ' || to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')
    FROM (
      SELECT customer_id, date_trunc('hour', started_at, 'UTC') AS hour, count(*) AS requests, count(*) FILTER (WHERE success) AS successes,
        count(*) FILTER (WHERE provider = 'local') AS local, count(*) FILTER (WHERE provider = 'hoster') AS hoster,
        count(*) FILTER (WHERE provider = 'cloud') AS cloud, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
        sum(cost_nanos) AS cost, coalesce(sum(latency_ms) FILTER (WHERE success), 0) AS latency
      FROM ${ofCustomers('usage_row', 'u')}
      WHERE NOT EXISTS (SELECT FROM ${ofCustomers('usage_closing', 'c')} WHERE c.customer_id = u.customer_id AND c.day = (u.started_at AT TIME ZONE 'UTC')::date)
      GROUP BY 1, 2
    ) u
    FULL JOIN (
      SELECT customer_id, hour, sum(requests) AS requests, sum(successes) AS successes, sum(local_requests) AS local,
        sum(hoster_requests) AS hoster, sum(cloud_requests) AS cloud, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
        sum(cost_nanos) AS cost, sum(latency_ms_sum) AS latency
      FROM ${ofCustomers('usage_hour', 'h')}
      WHERE NOT EXISTS (SELECT FROM ${ofCustomers('usage_closing', 'c')} WHERE c.customer_id = h.customer_id AND c.day = (h.hour AT TIME ZONE 'UTC')::date)
      GROUP BY 1, 2
      -- Rows taken back leave nothing but zeros.
      HAVING (sum(requests), sum(input_tokens), sum(output_tokens), sum(cost_nanos)) IS DISTINCT FROM (0, 0, 0, 0)
    ) r USING (customer_id, hour)
    WHERE (u.requests, u.successes, u.local, u.hoster, u.cloud, u.input_tokens, u.output_tokens, u.cost, u.latency)
      IS DISTINCT FROM (r.requests, r.successes, r.local, r.hoster, r.cloud, r.input_tokens, r.output_tokens, r.cost, r.latency)`),
  // The sums of archived rows are not split by hour.
  hours_equal_archived_days: customers(`
    SELECT customer_id || ' ' || day
    FROM (
      SELECT customer_id, day, sum(requests) AS requests, sum(successes) AS successes, sum(local) AS local, sum(hoster) AS hoster,
        sum(cloud) AS cloud, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(latency) AS latency
      FROM (
        SELECT customer_id, day, requests, successes, local_requests AS local, hoster_requests AS hoster, cloud_requests AS cloud,
          input_tokens, output_tokens, cost_nanos AS cost, latency_ms_sum AS latency FROM ${ofCustomers('usage_closing')}
        UNION ALL
        SELECT customer_id, (started_at AT TIME ZONE 'UTC')::date, count(*), count(*) FILTER (WHERE success),
          count(*) FILTER (WHERE provider = 'local'), count(*) FILTER (WHERE provider = 'hoster'), count(*) FILTER (WHERE provider = 'cloud'),
          sum(input_tokens), sum(output_tokens), sum(cost_nanos), coalesce(sum(latency_ms) FILTER (WHERE success), 0)
        FROM ${ofCustomers('usage_row', 'u')}
        WHERE EXISTS (SELECT FROM ${ofCustomers('usage_closing', 'c')} WHERE c.customer_id = u.customer_id AND c.day = (u.started_at AT TIME ZONE 'UTC')::date)
        GROUP BY 1, 2
      ) parts GROUP BY 1, 2
    ) u
    LEFT JOIN (
      SELECT customer_id, (hour AT TIME ZONE 'UTC')::date AS day, sum(requests) AS requests, sum(successes) AS successes, sum(local_requests) AS local,
        sum(hoster_requests) AS hoster, sum(cloud_requests) AS cloud, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cost_nanos) AS cost, sum(latency_ms_sum) AS latency
      FROM ${ofCustomers('usage_hour', 'h')}
      WHERE EXISTS (SELECT FROM ${ofCustomers('usage_closing', 'c')} WHERE c.customer_id = h.customer_id AND c.day = (h.hour AT TIME ZONE 'UTC')::date)
      GROUP BY 1, 2
    ) r USING (customer_id, day)
    WHERE (u.requests, u.successes, u.local, u.hoster, u.cloud, u.input_tokens, u.output_tokens, u.cost, u.latency)
      IS DISTINCT FROM (r.requests, r.successes, r.local, r.hoster, r.cloud, r.input_tokens, r.output_tokens, r.cost, r.latency)`),
  days_equal_usage: customers(`
    SELECT customer_id || ' ' || day || ' ' || model_id || ' ' || provider
    FROM (
      SELECT customer_id, day, model_id, provider, sum(requests) AS requests, sum(successes) AS successes, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(share) AS share, sum(fee) AS fee, sum(latency) AS latency,
        sum(cached) AS cached, sum(upstream) AS upstream, sum(costed) AS costed
      FROM (
        SELECT customer_id, (started_at AT TIME ZONE 'UTC')::date AS day, model_id, provider, count(*) AS requests,
          count(*) FILTER (WHERE success) AS successes, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
          sum(cost_nanos) AS cost, sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee,
          coalesce(sum(latency_ms) FILTER (WHERE success), 0) AS latency, coalesce(sum(cache_read_tokens), 0) AS cached,
          coalesce(sum(upstream_cost_nanos), 0) AS upstream, coalesce(sum(cost_nanos) FILTER (WHERE upstream_cost_nanos IS NOT NULL), 0) AS costed
        FROM ${ofCustomers('usage_row')} GROUP BY 1, 2, 3, 4
        UNION ALL
        SELECT customer_id, day, model_id, provider, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos,
          latency_ms_sum, cached_tokens, upstream_cost_nanos, costed_nanos FROM ${ofCustomers('usage_closing')}
      ) parts GROUP BY 1, 2, 3, 4
    ) u
    FULL JOIN (
      SELECT customer_id, day, model_id, provider, sum(requests) AS requests, sum(successes) AS successes,
        sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_nanos) AS cost,
        sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee, sum(latency_ms_sum) AS latency, sum(cached_tokens) AS cached,
        sum(upstream_cost_nanos) AS upstream, sum(costed_nanos) AS costed
      FROM ${ofCustomers('usage_day')} GROUP BY 1, 2, 3, 4
      -- Rows taken back leave nothing but zeros.
      HAVING (sum(requests), sum(input_tokens), sum(output_tokens), sum(cost_nanos)) IS DISTINCT FROM (0, 0, 0, 0)
    ) r USING (customer_id, day, model_id, provider)
    WHERE (u.requests, u.successes, u.input_tokens, u.output_tokens, u.cost, u.share, u.fee, u.latency, u.cached, u.upstream, u.costed)
      IS DISTINCT FROM
        (r.requests, r.successes, r.input_tokens, r.output_tokens, r.cost, r.share, r.fee, r.latency, r.cached, r.upstream, r.costed)`),
  key_days_equal_usage: customers(`
    SELECT concat_ws(' ', customer_id, key_id, day)
    FROM (
      SELECT customer_id, key_id, day, sum(requests) AS requests, sum(cost) AS cost
      FROM (
        SELECT customer_id, key_id, (started_at AT TIME ZONE 'UTC')::date AS day, count(*) AS requests, sum(cost_nanos) AS cost
        FROM ${ofCustomers('usage_row')} WHERE key_id IS NOT NULL GROUP BY 1, 2, 3
        UNION ALL
        SELECT customer_id, key_id, day, requests, cost_nanos FROM ${ofCustomers('usage_closing')} WHERE key_id IS NOT NULL
      ) parts GROUP BY 1, 2, 3
    ) u
    FULL JOIN (
      SELECT customer_id, key_id, day, sum(requests) AS requests, sum(cost_nanos) AS cost FROM ${ofCustomers('usage_key_day')} GROUP BY 1, 2, 3
      -- Rows taken back leave nothing but zeros.
      HAVING (sum(requests), sum(cost_nanos)) IS DISTINCT FROM (0, 0)
    ) r USING (customer_id, key_id, day)
    WHERE (u.requests, u.cost) IS DISTINCT FROM (r.requests, r.cost)`),
  // By day only: beyond 200 labels a day, the sums have the others together.
  label_days_equal_usage: customers(`
    SELECT concat_ws(' ', customer_id, day)
    FROM (
      SELECT customer_id, day, sum(requests) AS requests, sum(cost) AS cost
      FROM (
        SELECT customer_id, (started_at AT TIME ZONE 'UTC')::date AS day, count(*) AS requests, sum(cost_nanos) AS cost
        FROM ${ofCustomers('usage_row')} WHERE label IS NOT NULL GROUP BY 1, 2
        UNION ALL
        SELECT customer_id, day, requests, cost_nanos FROM ${ofCustomers('usage_closing')} WHERE label IS NOT NULL
      ) parts GROUP BY 1, 2
    ) u
    FULL JOIN (
      SELECT customer_id, day, sum(requests) AS requests, sum(cost_nanos) AS cost FROM ${ofCustomers('usage_label_day')} GROUP BY 1, 2
      -- Rows taken back leave nothing but zeros.
      HAVING (sum(requests), sum(cost_nanos)) IS DISTINCT FROM (0, 0)
    ) r USING (customer_id, day)
    WHERE (u.requests, u.cost) IS DISTINCT FROM (r.requests, r.cost)`),
  // Rounded up, as a charge is.
  cost_within_token_prices: customers(`
    SELECT request_id::text FROM ${ofCustomers('usage_row')}
    WHERE cost_nanos > ceil((
      input_tokens::numeric * input_pico_per_token + output_tokens::numeric * output_pico_per_token + ${PART_PICOS}
    ) / 1000)`),
  // The bounds of src/base/domain/meter-ratio.ts: a learned ratio is at most 1.5, and the row does not name it. Reports
  // of local and cloud servers are billed as they are.
  billed_within_count: customers(`
    SELECT request_id::text FROM ${ofCustomers('usage_row')}
    WHERE provider = 'hoster'
      AND (input_tokens > counted_input_tokens * ${REPORT_MAX} + ${REPORT_SLACK_TOKENS}
        OR output_tokens > counted_output_tokens * ${REPORT_MAX} + ${REPORT_SLACK_TOKENS})`),
  // Applies only once a node has been alive long enough to reclaim the lease. After an outage the leases of dead
  // nodes wait for the next start. 900 heartbeats take at least 15 minutes.
  no_lease_outlives_its_node: customers(`
    SELECT lease_id::text FROM ${ofCustomers('lease', 'l')}
    WHERE granted_at < now() - interval '15 minutes'
      AND NOT EXISTS (SELECT FROM node n WHERE n.node_id = l.node_id AND n.state = 'alive')
      AND EXISTS (SELECT FROM node_heartbeat h WHERE h.heartbeats > 900)`),
  // A living node ends such leases within a minute. No request runs for a day.
  no_lease_outlives_its_request: customers(`
    SELECT l.lease_id::text FROM ${ofCustomers('lease', 'l')} LEFT JOIN ${ofCustomers('usage_row', 'u')} ON u.customer_id = l.customer_id AND u.request_id = l.lease_id
    WHERE l.granted_at < now() - CASE WHEN u.request_id IS NULL THEN interval '1 day' ELSE interval '5 minutes' END`),
  // Covers all days. The current day is in the balance row.
  day_spend_equals_usage: customers(`
    SELECT customer_id || ' ' || day
    FROM (
      SELECT customer_id, day, sum(spent) AS spent FROM (
        SELECT customer_id, day, day_spent_nanos AS spent FROM ${ofCustomers('balance')}
        UNION ALL SELECT customer_id, day, spent_nanos FROM ${ofCustomers('day_spend')}
        UNION ALL SELECT customer_id, cap_day, settled_nanos FROM ${ofCustomers('lease')}
      ) s GROUP BY customer_id, day
    ) d
    FULL JOIN (
      SELECT customer_id, cap_day AS day, sum(cost) AS cost
      FROM (
        SELECT customer_id, cap_day, sum(cost_nanos) AS cost FROM ${ofCustomers('usage_row')} WHERE cap_day IS NOT NULL GROUP BY customer_id, cap_day
        UNION ALL
        SELECT customer_id, cap_day, cost_nanos FROM ${ofCustomers('usage_closing')} WHERE cap_day IS NOT NULL
      ) parts GROUP BY customer_id, cap_day
    ) u USING (customer_id, day)
    WHERE coalesce(d.spent, 0) <> coalesce(u.cost, 0)`),
  day_leased_equals_open_leases: customers(`
    SELECT b.customer_id::text FROM ${ofCustomers('balance', 'b')}
    LEFT JOIN (SELECT customer_id, cap_day, sum(granted_nanos) AS granted FROM ${ofCustomers('lease')} GROUP BY customer_id, cap_day) l
      ON l.customer_id = b.customer_id AND l.cap_day = b.day
    WHERE b.day_leased_nanos <> coalesce(l.granted, 0)`),
  day_spend_within_cap: customers(`
    SELECT customer_id || ' ' || day FROM ${ofCustomers('balance')} WHERE day_spent_nanos + day_leased_nanos > day_cap_nanos
    UNION ALL
    SELECT customer_id || ' ' || day FROM ${ofCustomers('day_spend', 'd')}
    LEFT JOIN (SELECT customer_id, cap_day AS day, sum(granted_nanos) AS granted FROM ${ofCustomers('lease')} GROUP BY customer_id, cap_day) l USING (customer_id, day)
    WHERE d.spent_nanos + coalesce(l.granted, 0) > d.cap_nanos`),
  key_spend_equals_usage: spendEqualsUsage('key', 'key_id'),
  key_leased_equals_open_leases: leasedEqualsOpenLeases('key', 'key_id'),
  key_spend_within_limit: customers(`
    SELECT concat_ws(' ', k.customer_id, k.key_id, k.window_start)
    FROM ${ofCustomers('key_spend', 'k')} JOIN api_key a ON a.key_id = k.key_id
    WHERE k.spent_nanos - k.before_nanos + k.leased_nanos > a.highest_limit_nanos`),
  member_spend_equals_usage: spendEqualsUsage('member', 'person_id'),
  member_leased_equals_open_leases: leasedEqualsOpenLeases('member', 'person_id'),
  member_spend_within_limit: customers(`
    SELECT concat_ws(' ', m.customer_id, m.person_id, m.window_start)
    FROM ${ofCustomers('member_spend', 'm')} JOIN member_limit l ON l.customer_id = m.customer_id AND l.person_id = m.person_id
    WHERE m.spent_nanos - m.before_nanos + m.leased_nanos > l.highest_limit_nanos`),
  windows_count_slots: customers(`
    SELECT b.customer_id::text FROM ${ofCustomers('balance', 'b')}
    LEFT JOIN (SELECT customer_id, cap_day, sum(slots) AS slots FROM ${ofCustomers('lease')} GROUP BY customer_id, cap_day) d
      ON d.customer_id = b.customer_id AND d.cap_day = b.day
    LEFT JOIN (SELECT customer_id, slot_minute, sum(slots) AS slots FROM ${ofCustomers('lease')} GROUP BY customer_id, slot_minute) m
      ON m.customer_id = b.customer_id AND m.slot_minute = b.minute
    WHERE b.day_requests < coalesce(d.slots, 0) OR b.minute_requests < coalesce(m.slots, 0)`),
  ledger_cannot_be_rewritten: all(`
    SELECT 'role ' || r.rolname || ' may change ' || m.name
    FROM gateway_role g JOIN pg_roles r ON r.rolname = g.name
      CROSS JOIN unnest(money_tables() || CASE WHEN g.is_desk THEN '{}' ELSE desk_tables() END) AS m(name)
    WHERE has_table_privilege(r.oid, m.name::regclass, 'DELETE, TRUNCATE') OR has_any_column_privilege(r.oid, m.name::regclass, 'INSERT, UPDATE')
    UNION ALL
    SELECT 'role ' || r.rolname || ' may read ' || c.relname || '.' || secret.name
    FROM gateway_role g JOIN pg_roles r ON r.rolname = g.name JOIN pg_class c ON c.relnamespace = current_schema()::regnamespace
      CROSS JOIN unnest(hidden_columns(c.relname, g.is_desk)) AS secret(name)
    WHERE has_column_privilege(r.oid, c.oid, secret.name, 'SELECT')
    UNION ALL
    -- A function of the owner that is on no list, too.
    SELECT 'role ' || r.rolname || ' may call ' || p.proname
    FROM gateway_role g JOIN pg_roles r ON r.rolname = g.name JOIN pg_proc p ON p.pronamespace = current_schema()::regnamespace AND p.prosecdef
    WHERE has_function_privilege(r.oid, p.oid, 'EXECUTE') AND p.proname <> ALL (money_functions() || CASE WHEN g.is_desk THEN desk_functions() ELSE '{}' END)
    UNION ALL
    -- Tables in a schema that comes first in the search path of the owner would take the place of the real ones.
    SELECT 'role ' || r.rolname || ' may create schemas'
    FROM gateway_role g JOIN pg_roles r ON r.rolname = g.name WHERE has_database_privilege(r.oid, current_database(), 'CREATE')
    UNION ALL
    -- Functions that fit a call of the owner's functions better would run in the place of those that are meant.
    SELECT 'role ' || r.rolname || ' may create in the schema ' || current_schema()
    FROM gateway_role g JOIN pg_roles r ON r.rolname = g.name WHERE has_schema_privilege(r.oid, current_schema(), 'CREATE')
    UNION ALL
    SELECT 'trigger ' || m.trigger || ' of ' || m.name FROM (
      SELECT 'append_only' AS trigger, unnest(ARRAY['ledger_tx', 'ledger_entry', 'refund', 'usage_closing', 'credit_taken', 'hoster_movement', 'credit_evidence']) AS name
      UNION ALL
      SELECT unnest(ARRAY['refuse_new_operator', 'refuse_operator_change', 'refuse_operator_delete']), 'person'
    ) AS m
    WHERE NOT EXISTS (
      SELECT FROM pg_trigger g WHERE g.tgrelid = m.name::regclass AND g.tgname = m.trigger AND g.tgenabled IN ('O', 'A'))`),
  // As the view audit_log_break. The entry before a slice gives its hash.
  audit_log_is_unbroken: logEntries(`
    SELECT entry_id::text FROM (
      SELECT e, e.entry_id, e.hash, lag(e.hash, 1, ''::bytea) OVER in_order AS previous_hash,
        lag(e.entry_id, 1, 0::bigint) OVER in_order AS previous_id
      FROM audit_entry e WHERE e.entry_id BETWEEN $1::bigint - 1 AND $2::bigint WINDOW in_order AS (ORDER BY e.entry_id)) AS entries
    WHERE entry_id >= $1::bigint AND (entry_id <> previous_id + 1 OR hash <> audit_entry_hash(previous_hash, e))`),
} as const satisfies Record<string, SlicedCheck>
