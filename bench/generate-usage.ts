import { randomUUIDv7 } from 'node:crypto'
import { parseArgs } from 'node:util'
import { migrate } from '../src/base/db/migrate.ts'
import { openDatabase } from '../src/base/db/open-database.ts'
import { createPool, type Pool, type Sql, transaction } from '../src/base/db/pool.ts'
import { openAccount } from '../src/money/ledger/accounts/open-account.ts'
import { addUsagePartitions } from '../src/money/ledger/settlement/add-usage-partitions.ts'
import { printProgress } from './print-progress.ts'

/** The customers of the generated usage, and its number of rows. */
export type GeneratedUsage = {
  rows: number
  /** The customer with half of all rows. */
  bigCustomerId: string
  /** The customers that share the other half. */
  otherCustomerIds: string[]
  seconds: number
}

/** E-mail address of the customer with half of all rows. */
export const bigCustomerEmail = 'big@example.com'

/**
 * Fills a migrated database with a year of settled requests, in the state that the gateway would have written: usage rows in monthly
 * partitions, charges in double entry, hourly and daily sums in two node shards, and balances. The audit is clean afterwards. Each transaction
 * inserts one UTC day with all constraints, indexes and triggers enabled. Random values are hashes of the row number, so two runs differ only
 * in the ids of customers and in the end time. Without other customers, the first one has all rows.
 *
 * @param options.account an existing customer that takes the place of the first one, and its keys, the most used one first
 * @param options.weights how many of the rows the days get, relative to each other, from the oldest; all the same by default
 */
export async function generateUsage(
  pool: Pool,
  options: {
    rows: number
    nowEpochMs: number
    days?: number
    otherCustomers?: number
    account?: { customerId: string; keyIds: readonly string[] }
    weights?: readonly number[]
  },
): Promise<GeneratedUsage> {
  const { rows, nowEpochMs, days = DAYS, otherCustomers = OTHER_CUSTOMERS, account, weights } = options
  const startedMs = performance.now()
  const todayMs = Math.floor(nowEpochMs / DAY_MS) * DAY_MS
  const fromMs = todayMs - (days - 1) * DAY_MS
  for (let month = 0; addMonths(fromMs, month) <= addMonths(nowEpochMs, 1); month++)
    await addUsagePartitions(pool, addMonths(fromMs, month))
  await pool.query(INSERT_HOSTERS)
  const customerIds = await addCustomers(pool, rows, otherCustomers, account?.customerId)
  const keyIds = account?.keyIds ?? customerIds.slice(0, 1)

  const weightUntil = (epochMs: number) => {
    const passed = (epochMs - fromMs) / DAY_MS
    const whole = Math.floor(passed)
    const weightOf = (day: number) => weights?.[day] ?? 1
    let sum = (passed - whole) * weightOf(whole)
    for (let day = 0; day < whole; day++) sum += weightOf(day)
    return sum
  }
  const rowsPerWeight = rows / weightUntil(nowEpochMs)
  const rowsUntil = (epochMs: number) => Math.round(weightUntil(epochMs) * rowsPerWeight)
  for (let dayMs = fromMs; dayMs <= todayMs; dayMs += DAY_MS) {
    const untilMs = Math.min(dayMs + DAY_MS, nowEpochMs)
    const [firstRow, endRow] = [rowsUntil(dayMs), rowsUntil(untilMs)]
    await transaction(pool, async sql => {
      await sql.query(`SET LOCAL work_mem = '256MB'`)
      await sql.query(SETTLE_A_DAY, [
        firstRow,
        endRow,
        dayMs,
        untilMs,
        customerIds,
        new Date(dayMs).toISOString().slice(0, 10),
        keyIds,
      ])
    })
    const day = (dayMs - fromMs) / DAY_MS + 1
    if (day % 30 === 0 || dayMs === todayMs) {
      printProgress(`${endRow} of ${rows} rows, ${Math.round((performance.now() - startedMs) / 1000)} s`)
    }
  }
  // Autovacuum has not run on the new database, so there are no statistics yet.
  await pool.query("VACUUM (ANALYZE, BUFFER_USAGE_LIMIT '64MB')")
  const [bigCustomerId, ...otherCustomerIds] = customerIds as [string, ...string[]]
  return { rows, bigCustomerId, otherCustomerIds, seconds: (performance.now() - startedMs) / 1000 }
}

const DAY_MS = 86_400_000
const DAYS = 365
const OTHER_CUSTOMERS = 1_000

async function addCustomers(pool: Pool, rows: number, otherCustomers: number, first?: string): Promise<string[]> {
  const newIds = Array.from({ length: otherCustomers + (first === undefined ? 1 : 0) }, () => randomUUIDv7())
  const customerIds = first === undefined ? newIds : [first, ...newIds]
  await transaction(pool, async sql => {
    if (newIds.length > 0)
      await sql.query(
        `INSERT INTO customer (customer_id, email, account_tier)
       SELECT id, CASE n WHEN $3 THEN $2 ELSE 'customer-' || n || '@example.com' END, 'bench'
       FROM unnest($1::uuid[]) WITH ORDINALITY AS c(id, n)`,
        [newIds, bigCustomerEmail, first === undefined ? 1 : 0],
      )
    for (const customerId of newIds) await openAccount(sql, customerId, 5_000_000_000n)
    await payIn(sql, customerIds, BigInt(rows) * COST_NANOS_MAX)
  })
  return customerIds
}

/** Upper bound of the cost of a generated request. */
const COST_NANOS_MAX = 1_000_000n

async function payIn(sql: Sql, customerIds: string[], creditNanos: bigint): Promise<void> {
  await sql.query(
    `SELECT grant_credit(id, CASE n WHEN 1 THEN $2::bigint ELSE $2::bigint / greatest(cardinality($1) - 1, 1) + 1 END, 'generated ' || id, 'generated usage')
     FROM unnest($1::uuid[]) WITH ORDINALITY AS c(id, n)`,
    [customerIds, creditNanos],
  )
}

function addMonths(epochMs: number, months: number): number {
  const at = new Date(epochMs)
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + months)
}

const HOSTERS = [1, 2, 3].map(n => `00000000-0000-4000-8000-00000000000${n}`)
const INSERT_HOSTERS = `
  INSERT INTO hoster (hoster_id, name, state, share_bps)
  SELECT id, 'hoster ' || n, 'active', 8000 FROM unnest('{${HOSTERS.join(',')}}'::uuid[]) WITH ORDINALITY AS h(id, n)
  ON CONFLICT DO NOTHING`

/**
 * Inserts the requests $1 to $2 (exclusive), spread evenly over the time from $3 to $4 (epoch ms) of the UTC day $6, settled in batches of
 * 200. Every second request belongs to the first customer of $5, with the keys $7; the others come in sessions of 20 requests of one customer. One request in
 * 128 failed.
 */
const SETTLE_A_DAY = `
WITH model AS (
  SELECT * FROM (VALUES
    (0, 'llama-3.3-70b', 150000::bigint, 600000::bigint), (1, 'qwen3-32b', 80000, 240000), (2, 'mistral-small-3.2', 50001, 100003),
    (3, 'gpt-oss-120b', 150000, 600000), (4, 'deepseek-v3.2', 270000, 1100000)
  ) AS m(m, model_id, input_price, output_price)
), provider AS (
  SELECT * FROM (VALUES (0, 'local', 'gpu-1'), (1, 'hoster', NULL), (2, 'cloud', 'openrouter')) AS p(p, provider, endpoint_id)
), numbered AS (
  SELECT i, i / 200 AS batch, $3::bigint + (i - $1::bigint) * ($4::bigint - $3::bigint) / ($2::bigint - $1::bigint) AS started_ms,
    hashint8extended(i, 1) AS h,
    ($5::uuid[])[CASE WHEN i % 2 = 0 OR cardinality($5) = 1 THEN 1 ELSE 2 + i / 40 % greatest(cardinality($5) - 1, 1) END] AS customer_id,
    md5(i::text) AS noise
  FROM generate_series($1::bigint, $2::bigint - 1) AS i
), asked AS (
  SELECT n.*, (lpad(to_hex(started_ms), 12, '0') || '7' || substr(noise, 1, 3) || '8' || substr(noise, 4, 15))::uuid AS request_id,
    h & 127 > 0 AS served, (h >> 7 & 1023) % 5 AS m, (h >> 17 & 1023) % 3 AS p, (h >> 27 & 15) % 3 AS hoster,
    50 + (h >> 31 & 1023) AS input_tokens, 20 + (h >> 41 & 511) AS output_tokens, 150 + (h >> 50 & 4095) AS latency_ms
  FROM numbered n
), priced AS (
  SELECT batch, customer_id, request_id, to_timestamp(started_ms / 1000.0) AS started_at, model_id, served, latency_ms,
    CASE WHEN served THEN provider ELSE 'none' END AS provider,
    CASE WHEN customer_id = ($5::uuid[])[1] THEN ($7::uuid[])[1 + cardinality($7) * (h >> 20 & 63) * (h >> 20 & 63) / 4096] ELSE customer_id END AS key_id,
    CASE WHEN NOT served THEN NULL WHEN p = 1 THEN '00000000-0000-4000-9000-00000000000' || (1 + hoster) ELSE endpoint_id END AS endpoint_id,
    CASE WHEN served AND p = 1 THEN ('{${HOSTERS.join(',')}}'::uuid[])[1 + hoster] END AS hoster_id,
    CASE WHEN served THEN input_tokens ELSE 0 END AS input_tokens, CASE WHEN served THEN output_tokens ELSE 0 END AS output_tokens,
    input_price, output_price,
    CASE WHEN served THEN (input_tokens * input_price + output_tokens * output_price + 999) / 1000 ELSE 0 END AS cost
  FROM asked JOIN model USING (m) JOIN provider USING (p)
), request AS MATERIALIZED (
  SELECT *, CASE WHEN hoster_id IS NULL THEN 0 ELSE cost * 8000 / 10000 END AS share FROM priced
), tx AS (
  INSERT INTO ledger_tx (kind, ref, at)
  SELECT 'settle', 'generated-' || batch || '-' || $6, max(started_at) FROM request GROUP BY batch HAVING sum(cost) > 0
  RETURNING tx_id, split_part(ref, '-', 2)::bigint AS batch
), used AS (
  INSERT INTO usage_event (customer_id, request_id, key_id, started_at, model_id, provider, endpoint_id, hoster_id,
    input_tokens, output_tokens, reported_input_tokens, reported_output_tokens, usage_source, input_pico_per_token, output_pico_per_token,
    hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, first_token_ms, success, outcome, finish_reason, attempts, tx_id, cap_day)
  SELECT customer_id, request_id, key_id, started_at, model_id, provider, endpoint_id, hoster_id,
    input_tokens, output_tokens, CASE WHEN served THEN input_tokens END, CASE WHEN served THEN output_tokens END,
    CASE WHEN served THEN 'upstream' ELSE 'none' END, input_price, output_price,
    cost + 1000, cost, share, cost - share, latency_ms, CASE WHEN served THEN latency_ms / 4 END, served,
    CASE WHEN served THEN 'served' ELSE 'failed' END, CASE WHEN served THEN 'stop' END,
    CASE WHEN served THEN '212' ELSE '[]' END::json,
    CASE WHEN cost > 0 THEN tx_id END, $6::date
  FROM request LEFT JOIN tx USING (batch)
), entries AS (
  INSERT INTO ledger_entry (tx_id, account_kind, account_id, amount_nanos)
  SELECT tx_id, e.kind, e.account_id, e.amount FROM (
    SELECT batch, 'customer' AS kind, customer_id AS account_id, -sum(cost)::bigint AS amount FROM request GROUP BY batch, customer_id
    UNION ALL
    SELECT batch, 'hoster_payable', hoster_id, sum(share)::bigint FROM request WHERE share > 0 GROUP BY batch, hoster_id
    UNION ALL
    SELECT batch, 'platform_revenue', '00000000-0000-0000-0000-000000000000', sum(cost - share)::bigint FROM request GROUP BY batch
  ) e JOIN tx USING (batch) WHERE e.amount <> 0
), by_hour AS (
  INSERT INTO usage_hour (customer_id, hour, node_shard, requests, successes, local_requests, hoster_requests, cloud_requests,
    input_tokens, output_tokens, cost_nanos, latency_ms_sum)
  SELECT customer_id, date_trunc('hour', started_at, 'UTC'), batch % 2, count(*), count(*) FILTER (WHERE served),
    count(*) FILTER (WHERE provider = 'local'), count(*) FILTER (WHERE provider = 'hoster'), count(*) FILTER (WHERE provider = 'cloud'),
    sum(input_tokens), sum(output_tokens), sum(cost), coalesce(sum(latency_ms) FILTER (WHERE served), 0)
  FROM request GROUP BY 1, 2, 3
), by_day AS (
  INSERT INTO usage_day (customer_id, day, model_id, provider, node_shard, requests, successes,
    input_tokens, output_tokens, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
  SELECT customer_id, $6::date, model_id, provider, batch % 2, count(*), count(*) FILTER (WHERE served),
    sum(input_tokens), sum(output_tokens), sum(cost), sum(share), sum(cost - share), coalesce(sum(latency_ms) FILTER (WHERE served), 0)
  FROM request GROUP BY 1, 3, 4, 5
), by_endpoint AS (
  INSERT INTO endpoint_day (day, endpoint_id, model_id, provider, node_shard, requests, cost_nanos, hoster_share_nanos, fee_nanos,
    upstream_cost_nanos, costed_nanos)
  SELECT $6::date, 'generated-' || provider, model_id, provider, batch % 2, count(*), sum(cost), sum(share), sum(cost - share), 0, 0
  FROM request WHERE provider <> 'none' GROUP BY 3, 4, 5
), by_hoster AS (
  INSERT INTO hoster_day (hoster_id, day, model_id, requests, successes, input_tokens, output_tokens, cost_nanos, hoster_share_nanos,
    fee_nanos, refunded_nanos, refunded_share_nanos)
  SELECT hoster_id, $6::date, model_id, count(*), count(*) FILTER (WHERE served), sum(input_tokens), sum(output_tokens), sum(cost), sum(share),
    sum(cost - share), 0, 0
  FROM request WHERE hoster_id IS NOT NULL GROUP BY 1, 3
), by_key AS (
  INSERT INTO usage_key_day (customer_id, key_id, day, node_shard, requests, cost_nanos)
  SELECT customer_id, key_id, $6::date, batch % 2, count(*), sum(cost) FROM request GROUP BY 1, 2, 4
), day_before AS (
  INSERT INTO day_spend (customer_id, day, spent_nanos)
  SELECT customer_id, day, day_spent_nanos FROM balance WHERE isfinite(day) AND customer_id IN (SELECT customer_id FROM request)
)
UPDATE balance b SET posted_nanos = posted_nanos - s.cost, day = $6::date, day_requests = s.requests, day_spent_nanos = s.cost
FROM (SELECT customer_id, sum(cost)::bigint AS cost, count(*)::integer AS requests FROM request GROUP BY customer_id) s
WHERE b.customer_id = s.customer_id`

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      rows: { type: 'string', default: '20000000' },
      'data-dir': { type: 'string' },
      'database-url': { type: 'string' },
    },
  })
  const [dataDir, databaseUrl] = [values['data-dir'], values['database-url']]
  if ((dataDir === undefined) === (databaseUrl === undefined)) {
    printProgress('Pass either --data-dir DIR for an embedded PostgreSQL, or --database-url postgres://...')
    process.exit(2)
  }
  const database = await openDatabase({
    databaseUrl,
    dataDir: dataDir ?? '',
    log: { info: printProgress, warn: printProgress },
  })
  await migrate(database.owner)
  const pool = createPool(database.owner, { max: 1, applicationName: 'generate usage', statementTimeoutMs: 0 })
  const { rows, seconds } = await generateUsage(pool, { rows: Number(values.rows), nowEpochMs: Date.now() })
  printProgress(`${rows} rows in ${Math.round(seconds)} s; half of them belong to ${bigCustomerEmail}`)
  await pool.end()
  await database.close()
}
