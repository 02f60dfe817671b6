import type { Sql } from '../../base/db/pool.ts'
import type { LatencyReport } from '../../wire/api/console-data.ts'

/** How many requests the report reads: enough for a 95th percentile, and a few milliseconds to read. */
const ROWS_MAX = 1000

/** Returns the latency and the failures of a customer's newest 1,000 requests, in total and by model. */
export async function latencyReportOf(sql: Sql, customerId: string): Promise<LatencyReport> {
  return reportOf(await sql.query<LatencyRow>(latencySql(OF_CUSTOMER), [customerId]))
}

/** Returns the same of the newest 1,000 requests of all customers, without those of audits. */
export async function latencyReportOfAll(sql: Sql): Promise<LatencyReport> {
  return reportOf(await sql.query<LatencyRow>(latencySql(OF_ALL)))
}

function reportOf({ rows }: { readonly rows: readonly LatencyRow[] }): LatencyReport {
  // There is a row of the total also without a request.
  const total = rows.find(row => row.isTotal)!
  const models = rows.filter(row => row.isTotal === false)
  return {
    object: 'latency',
    since: total.since === null ? null : total.since.toISOString(),
    ...figuresOf(total),
    models: models.map(row => ({ model: row.model, ...figuresOf(row) })),
  }
}

interface Figures {
  readonly requests: number
  readonly failed: number
  readonly firstP50: number | null
  readonly firstP95: number | null
  readonly totalP50: number | null
  readonly totalP95: number | null
}

type LatencyRow = Figures & { readonly since: Date | null } & (
    | { readonly isTotal: true; readonly model: null }
    | { readonly isTotal: false; readonly model: string }
  )

function figuresOf(row: Figures): Omit<LatencyReport, 'object' | 'since' | 'models'> {
  return {
    requests: row.requests,
    failed: row.failed,
    failure_share: row.requests === 0 ? 0 : row.failed / row.requests,
    first_token_ms: percentiles(row.firstP50, row.firstP95),
    total_ms: percentiles(row.totalP50, row.totalP95),
  }
}

function percentiles(p50: number | null, p95: number | null) {
  return p50 === null || p95 === null ? null : { p50, p95 }
}

const COLUMNS = 'customer_id, model_id, started_at, first_token_ms, latency_ms, success, outcome'
const OF_CUSTOMER = `SELECT ${COLUMNS} FROM usage_event WHERE customer_id = $1 ORDER BY request_id DESC LIMIT ${ROWS_MAX}`
const OF_ALL = `SELECT * FROM (
    SELECT ${COLUMNS} FROM usage_event ORDER BY started_at DESC, request_id DESC LIMIT ${ROWS_MAX}
  ) AS u WHERE NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = u.customer_id)`

// A client that left and a request that another run replaced are no failures of the service.
const latencySql = (newest: string) => `
WITH newest AS MATERIALIZED (
  ${newest}
)
SELECT model_id AS model, grouping(model_id) = 1 AS "isTotal", min(started_at) AS since, count(*)::integer AS requests,
  count(*) FILTER (WHERE NOT success AND outcome NOT IN ('client_gone', 'superseded'))::integer AS failed,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY first_token_ms) FILTER (WHERE success) AS "firstP50",
  percentile_disc(0.95) WITHIN GROUP (ORDER BY first_token_ms) FILTER (WHERE success) AS "firstP95",
  percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ms) FILTER (WHERE success) AS "totalP50",
  percentile_disc(0.95) WITHIN GROUP (ORDER BY latency_ms) FILTER (WHERE success) AS "totalP95"
FROM newest
GROUP BY GROUPING SETS ((model_id), ())
ORDER BY count(*) DESC, model_id`
