import { type ListedRequest, type RequestPage, type RequestsQuery, requestIdAt } from '../api/activity.ts'
import { writeCursor } from '../api/cursor.ts'
import type { Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import type { Outcome } from '../domain/handoff.ts'
import { type Nanos, usd } from '../domain/money.ts'
import { readInstant } from '../runtime/instant.ts'
import { lowestUuidAt } from '../runtime/uuid.ts'

/**
 * One page of a customer's requests, newest first, along the primary key: a cursor names the last row seen and not a number of rows, so
 * whatever is added above it, the next page begins where this one ended, and page 10,000 costs what the first does.
 */
export async function listRequests(sql: Sql, customerId: string, query: RequestsQuery): Promise<RequestPage> {
  const fromMs = query.from === undefined ? undefined : readInstant(query.from)
  const toMs = query.to === undefined ? undefined : readInstant(query.to)
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
    throw new ApiError('invalid_value', { param: 'from', message: '"from" must be earlier than "to".' })
  }
  const below = earlier(
    query.cursor === undefined ? HIGHEST_UUID : requestIdAt(query.cursor),
    toMs === undefined ? HIGHEST_UUID : lowestUuidAt(toMs + ID_SLACK_MS),
  )
  const span = [customerId, below, lowestUuidAt(Math.max(0, (fromMs ?? 0) - ID_SLACK_MS))] as const
  const wanted = conditions(query, fromMs, toMs)
  const rows = await readPage(sql, [...span, query.limit + 1], wanted)

  const page = rows.slice(0, query.limit)
  const lastListed = page.at(-1)?.request_id ?? HIGHEST_UUID
  const endOfScan = rows.length > query.limit || wanted.sql === '' ? null : await readEndOfScan(sql, span)
  // Rows that were added since the page was read move the end of its scan up: no further than to what it lists.
  const last = rows.length > query.limit ? lastListed : endOfScan && earlier(endOfScan, lastListed)
  return {
    object: 'list',
    data: page.map(listed),
    has_more: last !== null,
    next_cursor: last === null ? null : writeCursor(last),
  }
}

/**
 * Id and start of a request may come from two clocks: of a node that died, the start is when PostgreSQL granted the lease. Clocks that are
 * further apart than an hour are broken, and what is lost to a period then are free rows at its edge.
 */
const ID_SLACK_MS = 3_600_000
const HIGHEST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/**
 * A filtered page looks through this many rows at most. A filter that hardly any row passes would otherwise read millions of them for one
 * page; so it gets short pages, even empty ones, each of which takes some 15 ms.
 */
const ROWS_SCANNED = 10_000

interface Conditions {
  readonly sql: string
  readonly values: readonly unknown[]
}

/** The filters, with parameters from $5 on. */
function conditions(query: RequestsQuery, fromMs: number | undefined, toMs: number | undefined): Conditions {
  const filters: [sql: string, value: unknown][] = []
  if (query.model !== undefined) filters.push(['model_id =', query.model])
  if (query.key !== undefined) filters.push(['key_id =', query.key])
  if (query.provider !== undefined) filters.push(['provider =', query.provider])
  if (query.success !== undefined) filters.push(['success =', query.success === 'true'])
  if (fromMs !== undefined) filters.push(['started_at >=', new Date(fromMs)])
  if (toMs !== undefined) filters.push(['started_at <', new Date(toMs)])
  return {
    sql: filters.map(([condition], index) => `${condition} $${5 + index}`).join(' AND '),
    values: filters.map(([, value]) => value),
  }
}

/** Which ids to look at: of whom, below which, down to which. */
type Span = readonly [customerId: string, below: string, lowest: string]

/** The last id that a filtered page of this span looks at; null when that is all there are. An index alone answers it. */
async function readEndOfScan(sql: Sql, span: Span): Promise<string | null> {
  const { rows } = await sql.query<{ request_id: string }>(
    `SELECT request_id
       FROM usage_event
      WHERE customer_id = $1 AND request_id < $2 AND request_id >= $3
      ORDER BY request_id DESC
     OFFSET ${ROWS_SCANNED - 1} LIMIT 1`,
    span,
  )
  return rows[0]?.request_id ?? null
}

interface EventRow {
  readonly request_id: string
  readonly started_at: Date
  readonly key_id: string | null
  readonly model_id: string
  readonly provider: ListedRequest['provider']
  readonly hoster_id: string | null
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_nanos: Nanos
  readonly latency_ms: number
  readonly first_token_ms: number | null
  readonly success: boolean
  readonly outcome: Outcome
  readonly finish_reason: string | null
}

/** Reads until `limit` rows pass the filter, or the scan has reached its bound; without a filter each row passes. */
async function readPage(
  sql: Sql,
  spanAndLimit: readonly [...Span, limit: number],
  wanted: Conditions,
): Promise<EventRow[]> {
  // Both limits stand where the rows are read: a sorted subquery without one is planned for all of the customer's rows.
  const newest = (limit: string) => `
    SELECT *
      FROM usage_event
     WHERE customer_id = $1 AND request_id < $2 AND request_id >= $3
     ORDER BY request_id DESC
     LIMIT ${limit}`
  const passed =
    wanted.sql === '' ? newest('$4') : `SELECT * FROM (${newest(String(ROWS_SCANNED))}) AS scanned WHERE ${wanted.sql}`
  const { rows } = await sql.query<EventRow>(
    `SELECT request_id, started_at, key_id, model_id, provider, hoster_id, input_tokens, output_tokens, cost_nanos,
            latency_ms, first_token_ms, success, outcome, finish_reason
       FROM (${passed}) AS passed
      ORDER BY request_id DESC
      LIMIT $4`,
    [...spanAndLimit, ...wanted.values],
  )
  return rows
}

function listed(row: EventRow): ListedRequest {
  return {
    id: row.request_id,
    started_at: row.started_at.toISOString(),
    model: row.model_id,
    provider: row.provider,
    hoster_id: row.hoster_id,
    key_id: row.key_id,
    input_tokens: row.input_tokens,
    output_tokens: row.output_tokens,
    total_tokens: row.input_tokens + row.output_tokens,
    cost_usd: usd(row.cost_nanos),
    latency_ms: row.latency_ms,
    first_token_ms: row.first_token_ms,
    success: row.success,
    outcome: row.outcome,
    finish_reason: row.finish_reason,
  }
}

/** Lower-case UUIDs of the same length compare as text as PostgreSQL compares them. */
const earlier = (a: string, b: string) => (a < b ? a : b)
