import type { Sql } from '../base/db/pool.ts'
import { HOUR_MS } from '../base/domain/durations.ts'
import type { Outcome } from '../base/domain/handoff.ts'
import { type Nanos, usd } from '../base/domain/money.ts'
import type { ProviderKind } from '../base/domain/offer.ts'
import { readAttempts, type StoredAttempts } from '../base/domain/stored-attempts.ts'
import { uuidTimeMs } from '../base/runtime/uuid.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { keyOfCursor, writeCursor } from '../wire/api/cursor.ts'
import { type RequestLog, type RequestLogQuery, requestLogCursor } from '../wire/api/operator/requests.ts'

/** A filter that few rows pass would otherwise read millions of rows for one page: see listRequests. */
const ROWS_SCANNED = 10_000
const LIMIT = 50
const HIGHEST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/**
 * Returns a page of the requests of all customers, the newest first, without those of audits. It reads along the index of the
 * ids, or of the requests of one customer, and at most ROWS_SCANNED rows.
 */
export async function readRequestLog(sql: Sql, query: RequestLogQuery): Promise<RequestLog> {
  const limit = query.limit ?? LIMIT
  const [beforeAt, beforeId] = (keyOfCursor(query.cursor, requestLogCursor) ?? `infinity|${HIGHEST_UUID}`).split('|')
  const customerId = query.customer ?? (query.key === undefined ? null : await customerOfKey(sql, query.key))
  const values: unknown[] = [beforeAt, beforeId, limit + 1]
  const parameter = (value: unknown) => `$${values.push(value)}`
  const span = customerId === null ? SPAN_OF_ALL : spanOfCustomer(parameter(customerId))
  const ofId = query.id === undefined ? '' : ` AND ${conditionOfId(query.id, parameter)}`
  const filters = filtersOf(query, parameter)
  const { order } = span
  const where = span.where + ofId
  const scanned =
    query.error === undefined
      ? `SELECT * FROM usage_event WHERE ${where} ORDER BY ${order} LIMIT ${ROWS_SCANNED}`
      : requestsOfErrors(where, parameter(query.error))
  const { rows } = await sql.query<LogRow>(pageSql(scanned, filters), values)
  const page = rows.slice(0, limit)
  const isFull = rows.length > limit
  const next = (last: Place | null | undefined) => (last == null ? null : writeCursor(`${last.at}|${last.id}`))
  if (isFull) return { data: page.map(shown), next_cursor: next(page.at(-1)), looked_back_to: null }
  if (query.error !== undefined) {
    return { data: page.map(shown), next_cursor: null, looked_back_to: await oldestError(sql) }
  }
  const scannedTo = query.id !== undefined ? null : await endOfScan(sql, [beforeAt, beforeId], customerId)
  return {
    data: page.map(shown),
    next_cursor: next(scannedTo),
    looked_back_to: scannedTo === null ? null : new Date(uuidTimeMs(scannedTo.id)).toISOString(),
  }
}

const NEWEST_ERRORS = `SELECT * FROM server_error ORDER BY error_id DESC LIMIT ${ROWS_SCANNED}`

/**
 * Returns a statement that finds the requests of the newest errors with a text: each by the key of its row. Without the LIMIT
 * inside, PostgreSQL could read all requests to join them.
 */
const requestsOfErrors = (where: string, text: string) => `
  SELECT u.* FROM (
    SELECT DISTINCT customer_id, request_id FROM (${NEWEST_ERRORS}) AS newest WHERE strpos(lower(text), lower(${text})) > 0
  ) AS failed
  CROSS JOIN LATERAL (
    SELECT * FROM usage_event e WHERE e.customer_id = failed.customer_id AND e.request_id = failed.request_id AND ${where} LIMIT 1
  ) AS u`

/** Returns when the oldest error that is searched happened; null without any. */
async function oldestError(sql: Sql): Promise<string | null> {
  const { rows } = await sql.query<{ at: Date | null }>(`SELECT min(at) AS at FROM (${NEWEST_ERRORS}) AS newest`)
  return rows[0]?.at?.toISOString() ?? null
}

/** The rows before the cursor, in the order of an index: $1 is its time and $2 its id. */
interface Span {
  readonly where: string
  readonly order: string
}

const SPAN_OF_ALL: Span = {
  where: '(started_at, request_id) < ($1::timestamptz, $2::uuid)',
  order: 'started_at DESC, request_id DESC',
}

const spanOfCustomer = (customer: string): Span => ({
  where: `customer_id = ${customer} AND $1::timestamptz IS NOT NULL AND request_id < $2::uuid`,
  order: 'request_id DESC',
})

/** An id has the time of the request, by the clock of its node. */
function conditionOfId(id: string, parameter: (value: unknown) => string): string {
  const atMs = uuidTimeMs(id)
  const [from, until] = [atMs - HOUR_MS, atMs + HOUR_MS].map(ms => parameter(new Date(ms)))
  return `request_id = ${parameter(id)} AND started_at BETWEEN ${from} AND ${until}`
}

/** Returns the conditions of a query, with parameters from `parameter`. */
function filtersOf(query: RequestLogQuery, parameter: (value: unknown) => string): string[] {
  const filters: string[] = ['NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = s.customer_id)']
  const equal = (column: string, value: string | undefined) => {
    if (value !== undefined) filters.push(`s.${column} = ${parameter(value)}`)
  }
  equal('key_id', query.key)
  equal('label', query.label)
  equal('model_id', query.model)
  equal('provider', query.provider)
  equal('outcome', query.outcome)
  // The attempts of the usual row are a number: the server that the row names answered at once.
  const tried = (name: 'endpointId' | 'outcome', value: string) =>
    `position(${parameter(JSON.stringify({ [name]: value }).slice(1, -1))} in s.attempts::text) > 0`
  if (query.server !== undefined)
    filters.push(`(s.endpoint_id = ${parameter(query.server)} OR ${tried('endpointId', query.server)})`)
  if (query.failure !== undefined) filters.push(tried('outcome', query.failure))
  return filters
}

/** The time has microseconds, as text. */
interface Place {
  readonly at: string
  readonly id: string
}

interface LogRow extends Place {
  readonly startedAt: Date
  readonly customerId: string
  readonly email: string | null
  readonly keyId: string | null
  readonly keyName: string | null
  readonly label: string | null
  readonly modelId: string
  readonly provider: ProviderKind | 'none'
  readonly endpointId: string | null
  readonly outcome: Outcome
  readonly success: boolean
  readonly attempts: StoredAttempts
  readonly cost: Nanos
  readonly latencyMs: number
  readonly error: string | null
}

// The limit of the scan is inside: PostgreSQL would plan a sort of all rows otherwise. The errors of a request are in no order, for
// which PostgreSQL could read all errors.
const pageSql = (scanned: string, filters: readonly string[]) => `
SELECT p.*, c.email, k.name AS "keyName", e.text AS error FROM (
  SELECT s.request_id AS id, s.started_at::text AS at, s.started_at AS "startedAt", s.customer_id AS "customerId", s.key_id AS "keyId", s.label, s.model_id AS "modelId",
    s.provider, s.endpoint_id AS "endpointId", s.outcome, s.success, s.attempts, s.cost_nanos AS cost, s.latency_ms AS "latencyMs"
  FROM (${scanned}) AS s
  WHERE ${filters.join(' AND ')} ORDER BY s.started_at DESC, s.request_id DESC LIMIT $3
) AS p
LEFT JOIN customer c ON c.customer_id = p."customerId"
LEFT JOIN api_key k ON k.key_id = p."keyId"
LEFT JOIN LATERAL (SELECT string_agg(text, ' · ') AS text FROM server_error WHERE request_id = p.id) AS e ON true
ORDER BY p."startedAt" DESC, p.id DESC`

/** Returns the last row that a page scans; null when the scan reaches the end. Needs only the index. */
async function endOfScan(
  sql: Sql,
  before: readonly (string | undefined)[],
  customerId: string | null,
): Promise<Place | null> {
  const { where, order } = customerId === null ? SPAN_OF_ALL : spanOfCustomer('$3')
  const { rows } = await sql.query<Place>(
    `SELECT request_id AS id, started_at::text AS at FROM usage_event WHERE ${where} ORDER BY ${order} OFFSET ${ROWS_SCANNED - 1} LIMIT 1`,
    customerId === null ? before : [...before, customerId],
  )
  return rows[0] ?? null
}

/** Returns whose key it is; null: nobody's. */
export async function customerOfKey(sql: Sql, keyId: string): Promise<string | null> {
  const { rows } = await sql.query<{ id: string }>('SELECT customer_id AS id FROM api_key WHERE key_id = $1', [keyId])
  return rows[0]?.id ?? null
}

function shown(row: LogRow): RequestLog['data'][number] {
  const { endpointId, provider, modelId, keyId, keyName, outcome } = row
  return {
    id: row.id,
    started_at: row.startedAt.toISOString(),
    customer: { id: row.customerId, email: row.email === null ? null : emailOrNull(row.email) },
    key: keyId === null || keyName === null ? null : { id: keyId, name: keyName },
    label: row.label,
    model: modelId,
    provider,
    server: endpointId,
    outcome,
    success: row.success,
    failures: readAttempts(row.attempts, { endpointId, provider, modelId })
      .map(attempt => attempt.outcome)
      .filter(ended => ended !== 'answered'),
    error: row.error,
    charged_usd: usd(row.cost),
    latency_ms: row.latencyMs,
  }
}
