import { type Pool, type Sql, transaction, withQueryTimeout } from '../../db/pool.ts'

export interface AuditFinding {
  readonly name: AuditCheck
  readonly violations: number
  /** Up to five violations: transaction, customer, request or hoster ids, with the hour where that matters. */
  readonly examples: readonly string[]
}

/**
 * Checks every invariant of the money on all rows, in one snapshot of the running system. Returns one finding per
 * check, in order. The ledger is correct when no finding has violations. Takes no row locks. Reads the whole ledger,
 * so the pool must have no statement timeout. Rejects soon after `signal` aborts, even when PostgreSQL does not
 * answer; cancelling needs a second connection of the pool.
 */
export async function audit(pool: Pool, signal?: AbortSignal): Promise<AuditFinding[]> {
  const cut = new AbortController()
  let pid: number | undefined
  let timer: NodeJS.Timeout | undefined
  const cancel = () => {
    // A check may run for minutes, and a stopping gateway must not wait for it.
    if (pid !== undefined) {
      withQueryTimeout(pool, CANCEL_TIMEOUT_MS)
        .query('SELECT pg_cancel_backend($1)', [pid])
        .catch(() => {})
    }
    // A hanging PostgreSQL does not cancel the check, and the statements have no timeout here.
    timer = setTimeout(() => cut.abort(), CANCEL_TIMEOUT_MS)
  }
  signal?.addEventListener('abort', cancel)
  const readAll = async (db: Sql) => {
    await db.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
    // Before the snapshot: an archive that ends in between would drop rows that the snapshot has no sums for.
    await db.query('LOCK TABLE usage_event, usage_frozen IN ACCESS SHARE MODE')
    const { rows } = await db.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    pid = rows[0]!.pid
    const findings: AuditFinding[] = []
    for (const name of Object.keys(auditChecks) as AuditCheck[]) {
      signal?.throwIfAborted()
      findings.push(await check(db, name))
    }
    return findings
  }
  try {
    return await transaction(pool, readAll, cut.signal)
  } finally {
    signal?.removeEventListener('abort', cancel)
    clearTimeout(timer)
  }
}

const CANCEL_TIMEOUT_MS = 2_000

async function check(db: Sql, name: AuditCheck): Promise<AuditFinding> {
  const { rows } = await db.query<{ violations: number; examples: string[] | null }>(
    `SELECT count(*)::integer AS violations, (array_agg(id ORDER BY id))[1:5] AS examples FROM (${auditChecks[name]}) AS wrong(id)`,
  )
  return { name, violations: rows[0]!.violations, examples: rows[0]!.examples ?? [] }
}

export type AuditCheck = keyof typeof auditChecks

/** True for a transaction `tx_id` in a block without archived charges: it is compared alone, not with its block. */
const isOpenTx = `NOT EXISTS (SELECT FROM usage_closing c WHERE c.tx_block = tx_id >> 16)`

/**
 * Each check selects the ids that violate it. docs/money.md says what each check proves. The checks use NOT
 * EXISTS instead of NOT IN: when the list of a NOT IN exceeds `work_mem` (200,000 refunds for example),
 * PostgreSQL scans the whole list for each row.
 */
export const auditChecks = {
  transactions_sum_to_zero: `
    SELECT tx_id::text FROM ledger_entry GROUP BY tx_id HAVING sum(amount_nanos) <> 0`,
  ledger_sums_to_zero: `
    SELECT 'all entries: ' || sum(amount_nanos) FROM ledger_entry HAVING sum(amount_nanos) <> 0`,
  entries_have_a_transaction: `
    SELECT DISTINCT tx_id::text FROM ledger_entry e WHERE NOT EXISTS (SELECT FROM ledger_tx t WHERE t.tx_id = e.tx_id)`,
  transactions_have_entries: `
    SELECT tx_id::text FROM ledger_tx t WHERE NOT EXISTS (SELECT FROM ledger_entry e WHERE e.tx_id = t.tx_id)`,
  one_signup_credit_per_customer: `
    SELECT account_id::text FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
    WHERE t.kind = 'signup_credit' AND e.account_kind = 'customer' GROUP BY account_id HAVING count(*) > 1`,
  balances_cover_their_leases: `
    SELECT customer_id::text FROM balance WHERE leased_nanos < 0 OR posted_nanos < leased_nanos`,
  balances_equal_entries: `
    SELECT coalesce(b.customer_id, e.account_id)::text
    FROM balance b
    LEFT JOIN (SELECT customer_id, sum(settled_nanos) AS settled FROM lease GROUP BY customer_id) l USING (customer_id)
    FULL JOIN (
      SELECT account_id, sum(amount_nanos) AS amount FROM ledger_entry WHERE account_kind = 'customer' GROUP BY account_id
    ) e ON e.account_id = b.customer_id
    WHERE coalesce(b.posted_nanos, 0) - coalesce(l.settled, 0) <> coalesce(e.amount, 0)`,
  leased_equals_open_leases: `
    SELECT coalesce(b.customer_id, l.customer_id)::text
    FROM balance b FULL JOIN (
      SELECT customer_id, sum(granted_nanos) AS granted FROM lease GROUP BY customer_id
    ) l USING (customer_id)
    WHERE coalesce(b.leased_nanos, 0) <> coalesce(l.granted, 0)`,
  settled_within_granted: `
    SELECT lease_id::text FROM lease WHERE settled_nanos < 0 OR settled_nanos > granted_nanos OR (slots IS NULL AND settled_nanos > 0)`,
  one_usage_row_per_request: `
    SELECT request_id::text FROM usage_row GROUP BY request_id HAVING count(*) > 1`,
  cost_within_hold: `
    SELECT request_id::text FROM usage_row WHERE cost_nanos < 0 OR cost_nanos > hold_nanos`,
  cost_is_share_plus_fee: `
    SELECT request_id::text FROM usage_row WHERE cost_nanos <> hoster_share_nanos + fee_nanos OR hoster_share_nanos < 0 OR fee_nanos < 0`,
  charges_have_a_transaction: `
    SELECT request_id::text FROM usage_row WHERE (cost_nanos > 0) <> (tx_id IS NOT NULL)`,
  failures_are_free: `
    SELECT request_id::text FROM usage_row WHERE cost_nanos > 0 AND (NOT success OR outcome NOT IN ('served', 'client_gone'))`,
  charges_equal_customer_entries: `
    SELECT coalesce(u.tx_id, e.tx_id)::text
    FROM (SELECT tx_id, customer_id, sum(cost_nanos) AS cost FROM usage_row WHERE tx_id IS NOT NULL AND ${isOpenTx}
      GROUP BY tx_id, customer_id) u
    FULL JOIN (
      SELECT e.tx_id, e.account_id, e.amount_nanos FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
      WHERE t.kind = 'settle' AND e.account_kind = 'customer' AND ${isOpenTx}
    ) e ON e.tx_id = u.tx_id AND e.account_id = u.customer_id
    WHERE coalesce(u.cost, 0) <> -coalesce(e.amount_nanos, 0)`,
  shares_equal_hoster_entries: `
    SELECT coalesce(u.tx_id, e.tx_id)::text
    FROM (
      SELECT tx_id, hoster_id, sum(hoster_share_nanos) AS share FROM usage_row
      WHERE hoster_share_nanos > 0 AND ${isOpenTx} GROUP BY tx_id, hoster_id
    ) u
    FULL JOIN (
      SELECT tx_id, account_id, amount_nanos FROM ledger_entry e
      WHERE account_kind = 'hoster_payable' AND ${isOpenTx} AND NOT EXISTS (SELECT FROM ledger_tx t WHERE t.tx_id = e.tx_id AND t.kind = 'refund')
    ) e ON e.tx_id = u.tx_id AND e.account_id = u.hoster_id
    WHERE coalesce(u.share, 0) <> coalesce(e.amount_nanos, 0)`,
  fees_equal_revenue_entries: `
    SELECT coalesce(u.tx_id, e.tx_id)::text
    FROM (SELECT tx_id, sum(fee_nanos) AS fee FROM usage_row WHERE fee_nanos > 0 AND ${isOpenTx} GROUP BY tx_id) u
    FULL JOIN (
      SELECT tx_id, amount_nanos FROM ledger_entry e
      WHERE account_kind = 'platform_revenue' AND ${isOpenTx} AND NOT EXISTS (SELECT FROM ledger_tx t WHERE t.tx_id = e.tx_id AND t.kind = 'refund')
    ) e USING (tx_id)
    WHERE coalesce(u.fee, 0) <> coalesce(e.amount_nanos, 0)`,
  // Blocks of transactions with archived charges. They may have charges that are not archived too.
  archived_charges_equal_entries: `
    WITH block AS (SELECT DISTINCT tx_block FROM usage_closing WHERE tx_block IS NOT NULL)
    SELECT concat_ws(' ', 'transactions', tx_block << 16, 'to', ((tx_block + 1) << 16) - 1, kind, account)
    FROM (
      SELECT tx_block, a.kind, a.account, sum(a.amount) AS amount
      FROM (
        SELECT tx_block, customer_id, hoster_id, cost_nanos, hoster_share_nanos, fee_nanos FROM usage_closing WHERE tx_block IS NOT NULL
        UNION ALL
        SELECT tx_block, customer_id, hoster_id, cost_nanos, hoster_share_nanos, fee_nanos FROM usage_row JOIN block ON tx_block = tx_id >> 16
      ) c, LATERAL (VALUES
        ('customer', customer_id, -cost_nanos),
        ('hoster_payable', hoster_id, hoster_share_nanos),
        ('platform_revenue', '00000000-0000-0000-0000-000000000000', fee_nanos)
      ) AS a(kind, account, amount) WHERE a.amount <> 0 GROUP BY 1, 2, 3
    ) c
    FULL JOIN (
      SELECT tx_block, e.account_kind AS kind, e.account_id AS account, sum(e.amount_nanos) AS amount
      FROM ledger_entry e JOIN block ON tx_block = e.tx_id >> 16 JOIN ledger_tx t ON t.tx_id = e.tx_id
      WHERE t.kind = 'settle' GROUP BY 1, 2, 3
    ) e USING (tx_block, kind, account)
    WHERE coalesce(c.amount, 0) <> coalesce(e.amount, 0)`,
  archives_equal_closings: `
    SELECT to_char(month, 'YYYY-MM')
    FROM (SELECT month, requests - kept_requests AS requests FROM usage_archive WHERE archived_at IS NOT NULL) a
    FULL JOIN (SELECT month, sum(requests) AS requests FROM usage_closing GROUP BY month) c USING (month)
    WHERE coalesce(a.requests, 0) <> coalesce(c.requests, 0)`,
  refunds_within_charges: `
    SELECT r.request_id::text FROM refund r LEFT JOIN usage_row u USING (customer_id, request_id)
    WHERE (r.amount_nanos > 0 AND r.amount_nanos <= u.cost_nanos AND r.started_at = u.started_at) IS NOT TRUE`,
  refunds_reverse_shares: `
    SELECT r.request_id::text FROM refund r JOIN usage_row u USING (customer_id, request_id)
    WHERE r.hoster_share_nanos <> div(u.hoster_share_nanos::numeric * r.amount_nanos, nullif(u.cost_nanos, 0))
      OR r.fee_nanos <> r.amount_nanos - r.hoster_share_nanos`,
  refunds_equal_entries: `
    SELECT coalesce(r.tx_id, e.tx_id)::text
    FROM (
      SELECT r.tx_id, r.request_id::text AS ref, a.kind, a.account, a.amount
      FROM refund r JOIN usage_row u USING (customer_id, request_id), LATERAL (VALUES
        ('customer', r.customer_id, r.amount_nanos),
        ('hoster_payable', u.hoster_id, -r.hoster_share_nanos),
        ('platform_revenue', '00000000-0000-0000-0000-000000000000', -r.fee_nanos)
      ) AS a(kind, account, amount) WHERE a.amount <> 0
    ) r
    FULL JOIN (
      SELECT t.tx_id, t.ref, e.account_kind, e.account_id, e.amount_nanos
      FROM ledger_tx t JOIN ledger_entry e USING (tx_id) WHERE t.kind = 'refund'
    ) e ON (e.tx_id, e.ref, e.account_kind, e.account_id, e.amount_nanos) = (r.tx_id, r.ref, r.kind, r.account, r.amount)
    WHERE r.tx_id IS NULL OR e.tx_id IS NULL
    GROUP BY 1`,
  hours_equal_usage: `
    SELECT customer_id || ' ' || to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')
    FROM (
      SELECT customer_id, date_trunc('hour', started_at, 'UTC') AS hour, count(*) AS requests, count(*) FILTER (WHERE success) AS successes,
        count(*) FILTER (WHERE provider = 'local') AS local, count(*) FILTER (WHERE provider = 'hoster') AS hoster,
        count(*) FILTER (WHERE provider = 'cloud') AS cloud, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
        sum(cost_nanos) AS cost, coalesce(sum(latency_ms) FILTER (WHERE success), 0) AS latency
      FROM usage_row u
      WHERE NOT EXISTS (SELECT FROM usage_closing c WHERE c.customer_id = u.customer_id AND c.day = (u.started_at AT TIME ZONE 'UTC')::date)
      GROUP BY 1, 2
    ) u
    FULL JOIN (
      SELECT customer_id, hour, sum(requests) AS requests, sum(successes) AS successes, sum(local_requests) AS local,
        sum(hoster_requests) AS hoster, sum(cloud_requests) AS cloud, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
        sum(cost_nanos) AS cost, sum(latency_ms_sum) AS latency
      FROM usage_hour h
      WHERE NOT EXISTS (SELECT FROM usage_closing c WHERE c.customer_id = h.customer_id AND c.day = (h.hour AT TIME ZONE 'UTC')::date)
      GROUP BY 1, 2
      -- Rows taken back leave nothing but zeros.
      HAVING (sum(requests), sum(input_tokens), sum(output_tokens), sum(cost_nanos)) IS DISTINCT FROM (0, 0, 0, 0)
    ) r USING (customer_id, hour)
    WHERE (u.requests, u.successes, u.local, u.hoster, u.cloud, u.input_tokens, u.output_tokens, u.cost, u.latency)
      IS DISTINCT FROM (r.requests, r.successes, r.local, r.hoster, r.cloud, r.input_tokens, r.output_tokens, r.cost, r.latency)`,
  // The sums of archived rows are not split by hour.
  hours_equal_archived_days: `
    WITH archived AS (
      SELECT customer_id, day, sum(requests) AS requests, sum(successes) AS successes, sum(local_requests) AS local, sum(hoster_requests) AS hoster,
        sum(cloud_requests) AS cloud, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_nanos) AS cost,
        sum(latency_ms_sum) AS latency
      FROM usage_closing GROUP BY 1, 2
    )
    SELECT customer_id || ' ' || day
    FROM (
      SELECT customer_id, day, sum(requests) AS requests, sum(successes) AS successes, sum(local) AS local, sum(hoster) AS hoster,
        sum(cloud) AS cloud, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(latency) AS latency
      FROM (
        SELECT * FROM archived
        UNION ALL
        SELECT a.customer_id, a.day, count(*), count(*) FILTER (WHERE u.success), count(*) FILTER (WHERE u.provider = 'local'),
          count(*) FILTER (WHERE u.provider = 'hoster'), count(*) FILTER (WHERE u.provider = 'cloud'), sum(u.input_tokens), sum(u.output_tokens),
          sum(u.cost_nanos), coalesce(sum(u.latency_ms) FILTER (WHERE u.success), 0)
        FROM archived a JOIN usage_row u ON u.customer_id = a.customer_id AND (u.started_at AT TIME ZONE 'UTC')::date = a.day GROUP BY 1, 2
      ) parts GROUP BY 1, 2
    ) u
    LEFT JOIN (
      SELECT h.customer_id, a.day, sum(h.requests) AS requests, sum(h.successes) AS successes, sum(h.local_requests) AS local,
        sum(h.hoster_requests) AS hoster, sum(h.cloud_requests) AS cloud, sum(h.input_tokens) AS input_tokens,
        sum(h.output_tokens) AS output_tokens, sum(h.cost_nanos) AS cost, sum(h.latency_ms_sum) AS latency
      FROM archived a JOIN usage_hour h ON h.customer_id = a.customer_id AND (h.hour AT TIME ZONE 'UTC')::date = a.day GROUP BY 1, 2
    ) r USING (customer_id, day)
    WHERE (u.requests, u.successes, u.local, u.hoster, u.cloud, u.input_tokens, u.output_tokens, u.cost, u.latency)
      IS DISTINCT FROM (r.requests, r.successes, r.local, r.hoster, r.cloud, r.input_tokens, r.output_tokens, r.cost, r.latency)`,
  days_equal_usage: `
    SELECT customer_id || ' ' || day || ' ' || model_id || ' ' || provider
    FROM (
      SELECT customer_id, day, model_id, provider, sum(requests) AS requests, sum(successes) AS successes, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(share) AS share, sum(fee) AS fee, sum(latency) AS latency
      FROM (
        SELECT customer_id, (started_at AT TIME ZONE 'UTC')::date AS day, model_id, provider, count(*) AS requests,
          count(*) FILTER (WHERE success) AS successes, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
          sum(cost_nanos) AS cost, sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee,
          coalesce(sum(latency_ms) FILTER (WHERE success), 0) AS latency
        FROM usage_row GROUP BY 1, 2, 3, 4
        UNION ALL
        SELECT customer_id, day, model_id, provider, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos,
          latency_ms_sum FROM usage_closing
      ) parts GROUP BY 1, 2, 3, 4
    ) u
    FULL JOIN (
      SELECT customer_id, day, model_id, provider, sum(requests) AS requests, sum(successes) AS successes,
        sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_nanos) AS cost,
        sum(hoster_share_nanos) AS share, sum(fee_nanos) AS fee, sum(latency_ms_sum) AS latency
      FROM usage_day GROUP BY 1, 2, 3, 4
      -- Rows taken back leave nothing but zeros.
      HAVING (sum(requests), sum(input_tokens), sum(output_tokens), sum(cost_nanos)) IS DISTINCT FROM (0, 0, 0, 0)
    ) r USING (customer_id, day, model_id, provider)
    WHERE (u.requests, u.successes, u.input_tokens, u.output_tokens, u.cost, u.share, u.fee, u.latency)
      IS DISTINCT FROM (r.requests, r.successes, r.input_tokens, r.output_tokens, r.cost, r.share, r.fee, r.latency)`,
  key_days_equal_usage: `
    SELECT concat_ws(' ', customer_id, key_id, day)
    FROM (
      SELECT customer_id, key_id, day, sum(requests) AS requests, sum(cost) AS cost
      FROM (
        SELECT customer_id, key_id, (started_at AT TIME ZONE 'UTC')::date AS day, count(*) AS requests, sum(cost_nanos) AS cost
        FROM usage_row WHERE key_id IS NOT NULL GROUP BY 1, 2, 3
        UNION ALL
        SELECT customer_id, key_id, day, requests, cost_nanos FROM usage_closing WHERE key_id IS NOT NULL
      ) parts GROUP BY 1, 2, 3
    ) u
    FULL JOIN (
      SELECT customer_id, key_id, day, sum(requests) AS requests, sum(cost_nanos) AS cost FROM usage_key_day GROUP BY 1, 2, 3
      -- Rows taken back leave nothing but zeros.
      HAVING (sum(requests), sum(cost_nanos)) IS DISTINCT FROM (0, 0)
    ) r USING (customer_id, key_id, day)
    WHERE (u.requests, u.cost) IS DISTINCT FROM (r.requests, r.cost)`,
  // Rounded up, as a charge is.
  cost_within_token_prices: `
    SELECT request_id::text FROM usage_row
    WHERE cost_nanos > ceil((input_tokens::numeric * input_pico_per_token + output_tokens::numeric * output_pico_per_token) / 1000)`,
  // The tolerance of `believed` in src/relay/bill.ts. Reports of local and cloud servers are billed as they are.
  billed_within_count: `
    SELECT request_id::text FROM usage_row
    WHERE provider = 'hoster'
      AND (input_tokens > counted_input_tokens * 1.05 + 8 OR output_tokens > counted_output_tokens * 1.05 + 8)`,
  // Applies only once a node has been alive long enough to reclaim the lease. After an outage the leases of dead
  // nodes wait for the next start. 900 heartbeats take at least 15 minutes.
  no_lease_outlives_its_node: `
    SELECT lease_id::text FROM lease l
    WHERE granted_at < now() - interval '15 minutes'
      AND NOT EXISTS (SELECT FROM node n WHERE n.node_id = l.node_id AND n.state = 'alive')
      AND EXISTS (SELECT FROM node_heartbeat h WHERE h.heartbeats > 900)`,
  // A living node ends such leases within a minute. No request runs for a day.
  no_lease_outlives_its_request: `
    SELECT l.lease_id::text FROM lease l LEFT JOIN usage_row u ON u.customer_id = l.customer_id AND u.request_id = l.lease_id
    WHERE l.granted_at < now() - CASE WHEN u.request_id IS NULL THEN interval '1 day' ELSE interval '5 minutes' END`,
  // Covers all days. The current day is in the balance row.
  day_spend_equals_usage: `
    SELECT customer_id || ' ' || day
    FROM (
      SELECT customer_id, day, sum(spent) AS spent FROM (
        SELECT customer_id, day, day_spent_nanos AS spent FROM balance
        UNION ALL SELECT customer_id, day, spent_nanos FROM day_spend
        UNION ALL SELECT customer_id, cap_day, settled_nanos FROM lease
      ) s GROUP BY customer_id, day
    ) d
    FULL JOIN (
      SELECT customer_id, cap_day AS day, sum(cost) AS cost
      FROM (
        SELECT customer_id, cap_day, sum(cost_nanos) AS cost FROM usage_row WHERE cap_day IS NOT NULL GROUP BY customer_id, cap_day
        UNION ALL
        SELECT customer_id, cap_day, cost_nanos FROM usage_closing WHERE cap_day IS NOT NULL
      ) parts GROUP BY customer_id, cap_day
    ) u USING (customer_id, day)
    WHERE coalesce(d.spent, 0) <> coalesce(u.cost, 0)`,
  day_leased_equals_open_leases: `
    SELECT b.customer_id::text FROM balance b
    LEFT JOIN (SELECT customer_id, cap_day, sum(granted_nanos) AS granted FROM lease GROUP BY customer_id, cap_day) l
      ON l.customer_id = b.customer_id AND l.cap_day = b.day
    WHERE b.day_leased_nanos <> coalesce(l.granted, 0)`,
  day_spend_within_cap: `
    SELECT customer_id || ' ' || day FROM balance WHERE day_spent_nanos + day_leased_nanos > day_cap_nanos
    UNION ALL
    SELECT customer_id || ' ' || day FROM day_spend d
    LEFT JOIN (SELECT customer_id, cap_day AS day, sum(granted_nanos) AS granted FROM lease GROUP BY customer_id, cap_day) l USING (customer_id, day)
    WHERE d.spent_nanos + coalesce(l.granted, 0) > d.cap_nanos`,
  key_spend_equals_usage: `
    SELECT concat_ws(' ', customer_id, key_id, key_window)
    FROM (SELECT customer_id, key_id, window_start AS key_window, spent_nanos AS spent FROM key_spend) k
    FULL JOIN (
      SELECT customer_id, key_id, key_window, sum(cost) AS cost
      FROM (
        SELECT customer_id, key_id, key_window, sum(cost_nanos) AS cost FROM usage_row WHERE key_window IS NOT NULL
        GROUP BY customer_id, key_id, key_window
        UNION ALL
        SELECT customer_id, key_id, key_window, cost_nanos FROM usage_closing WHERE key_window IS NOT NULL
      ) parts GROUP BY customer_id, key_id, key_window
    ) u USING (customer_id, key_id, key_window)
    WHERE coalesce(k.spent, 0) <> coalesce(u.cost, 0)`,
  key_leased_equals_open_leases: `
    SELECT concat_ws(' ', customer_id, key_id, key_window)
    FROM (SELECT customer_id, key_id, window_start AS key_window, leased_nanos AS leased FROM key_spend) k
    FULL JOIN (
      SELECT customer_id, key_id, key_window, sum(granted_nanos) AS granted FROM lease WHERE key_window IS NOT NULL
      GROUP BY customer_id, key_id, key_window
    ) l USING (customer_id, key_id, key_window)
    WHERE coalesce(k.leased, 0) <> coalesce(l.granted, 0)`,
  key_spend_within_limit: `
    SELECT concat_ws(' ', k.customer_id, k.key_id, k.window_start)
    FROM key_spend k JOIN api_key a ON a.key_id = k.key_id
    WHERE k.spent_nanos + k.leased_nanos > a.highest_limit_nanos`,
  windows_count_slots: `
    SELECT b.customer_id::text FROM balance b
    LEFT JOIN (SELECT customer_id, cap_day, sum(slots) AS slots FROM lease GROUP BY customer_id, cap_day) d
      ON d.customer_id = b.customer_id AND d.cap_day = b.day
    LEFT JOIN (SELECT customer_id, slot_minute, sum(slots) AS slots FROM lease GROUP BY customer_id, slot_minute) m
      ON m.customer_id = b.customer_id AND m.slot_minute = b.minute
    WHERE b.day_requests < coalesce(d.slots, 0) OR b.minute_requests < coalesce(m.slots, 0)`,
  ledger_cannot_be_rewritten: `
    SELECT 'role ' || r.rolname || ' may change ' || m.name
    FROM installation i JOIN pg_roles r ON r.rolname = i.value CROSS JOIN unnest(money_tables()) AS m(name)
    WHERE i.name = 'gateway_role' AND has_table_privilege(r.oid, m.name::regclass, 'INSERT, UPDATE, DELETE, TRUNCATE')
    UNION ALL
    SELECT 'trigger append_only of ' || m.name FROM unnest(ARRAY['ledger_tx', 'ledger_entry', 'refund', 'usage_closing']) AS m(name)
    WHERE NOT EXISTS (
      SELECT FROM pg_trigger g WHERE g.tgrelid = m.name::regclass AND g.tgname = 'append_only' AND g.tgenabled IN ('O', 'A'))`,
} as const satisfies Record<string, string>
