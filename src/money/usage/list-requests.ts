import type { Sql } from '../../base/db/pool.ts'
import { HOUR_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Outcome } from '../../base/domain/handoff.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { readInstant } from '../../base/runtime/instant.ts'
import { lowestUuidAt, uuidTimeMs } from '../../base/runtime/uuid.ts'
import { type ListedRequest, type RequestPage, type RequestsQuery, requestIdAt } from '../../wire/api/activity.ts'
import { writeCursor } from '../../wire/api/cursor.ts'
import { archivedBefore } from './archived-before.ts'

/**
 * Returns one page of a customer's requests, newest first, along the primary key. A cursor names the last row
 * seen instead of an offset: the next page begins where this one ended even if rows were added above, and
 * page 10,000 costs as much as the first.
 */
export async function listRequests(sql: Sql, customerId: string, query: RequestsQuery): Promise<RequestPage> {
  const { fromMs, toMs } = readSpan(query)
  const below = earlier(
    requestIdAt(query.cursor) ?? HIGHEST_UUID,
    toMs === undefined ? HIGHEST_UUID : lowestUuidAt(toMs + ID_SLACK_MS),
  )
  const span = [customerId, below, lowestUuidAt(Math.max(0, (fromMs ?? 0) - ID_SLACK_MS))] as const
  const wanted = requestConditions(query, 5)
  const [rows, archived] = await Promise.all([
    readPage(sql, [...span, query.limit + 1], wanted),
    archivedBefore(sql, fromMs ?? 0, toMs ?? Infinity),
  ])

  const page = rows.slice(0, query.limit)
  const lastListed = page.at(-1)?.request_id ?? HIGHEST_UUID
  const endOfScan = rows.length > query.limit || wanted.sql === '' ? null : await readEndOfScan(sql, span)
  // Rows added since the page was read move the end of the scan up, but never above the last listed row.
  const scannedTo = endOfScan === null ? null : earlier(endOfScan, lastListed)
  const last = rows.length > query.limit ? lastListed : scannedTo
  return {
    object: 'list',
    data: page.map(listed),
    has_more: last !== null,
    next_cursor: last === null ? null : writeCursor(last),
    looked_back_to: scannedTo === null ? null : new Date(uuidTimeMs(scannedTo)).toISOString(),
    archived_before: archived,
  }
}

/**
 * The id and the start of a request may come from two clocks: when a node died, the start is the time when
 * PostgreSQL granted the lease. With clocks more than an hour apart, a period may miss such rows at its edge;
 * they are free.
 */
const ID_SLACK_MS = HOUR_MS
const HIGHEST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/**
 * A filtered page scans at most this many rows. A filter that few rows pass would otherwise read millions of
 * rows for one page. With this bound it returns short or even empty pages, each within about 15 ms.
 */
const ROWS_SCANNED = 10_000

export interface Conditions {
  readonly sql: string
  readonly values: readonly unknown[]
}

type RequestFilters = Omit<RequestsQuery, 'limit' | 'cursor'>

/** Returns the period of a query. Throws `invalid_value` for one that ends before it begins. */
export function readSpan({ from, to }: RequestFilters): { fromMs: number | undefined; toMs: number | undefined } {
  const fromMs = from === undefined ? undefined : readInstant(from)
  const toMs = to === undefined ? undefined : readInstant(to)
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
    throw new ApiError('invalid_value', { param: 'from', message: sayRefusal('refusal.from_after_to') })
  }
  return { fromMs, toMs }
}

/** Returns the filters of a query as SQL, with parameters from `$first` on. */
export function requestConditions(query: RequestFilters, first: number): Conditions {
  const { fromMs, toMs } = readSpan(query)
  const filters: [sql: string, value: unknown][] = []
  if (query.model !== undefined) filters.push(['model_id =', query.model])
  if (query.key !== undefined) filters.push(['key_id =', query.key])
  if (query.provider !== undefined) filters.push(['provider =', query.provider])
  if (query.label !== undefined) filters.push(['label =', query.label])
  if (query.outcome !== undefined) filters.push(['outcome =', query.outcome])
  if (query.success !== undefined) filters.push(['success =', query.success === 'true'])
  if (fromMs !== undefined) filters.push(['started_at >=', new Date(fromMs)])
  if (toMs !== undefined) filters.push(['started_at <', new Date(toMs)])
  return {
    sql: filters.map(([condition], index) => `${condition} $${first + index}`).join(' AND '),
    values: filters.map(([, value]) => value),
  }
}

/** The ids to scan: those of this customer below `below`, down to and including `lowest`. */
type Span = readonly [customerId: string, below: string, lowest: string]

/**
 * Returns the last id that a filtered page of this span scans; null when the scan reaches the end. Needs only
 * the index.
 */
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
  readonly label: string | null
  readonly model_id: string
  readonly provider: ListedRequest['provider']
  readonly hoster_id: string | null
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cache_read_tokens: number | null
  readonly cost_nanos: Nanos
  readonly latency_ms: number
  readonly first_token_ms: number | null
  readonly success: boolean
  readonly outcome: Outcome
  readonly finish_reason: string | null
}

/** Reads until `limit` rows pass the filter or the scan reaches its bound. Without a filter every row passes. */
async function readPage(
  sql: Sql,
  spanAndLimit: readonly [...Span, limit: number],
  wanted: Conditions,
): Promise<EventRow[]> {
  // Both limits are inside the subqueries: PostgreSQL plans a sorted subquery without a limit for all of the
  // customer's rows.
  const newest = (limit: string) => `
    SELECT *
      FROM usage_event
     WHERE customer_id = $1 AND request_id < $2 AND request_id >= $3
     ORDER BY request_id DESC
     LIMIT ${limit}`
  const passed =
    wanted.sql === '' ? newest('$4') : `SELECT * FROM (${newest(String(ROWS_SCANNED))}) AS scanned WHERE ${wanted.sql}`
  const { rows } = await sql.query<EventRow>(
    `SELECT request_id, started_at, key_id, label, model_id, provider, hoster_id, input_tokens, output_tokens,
            cache_read_tokens, cost_nanos, latency_ms, first_token_ms, success, outcome, finish_reason
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
    label: row.label,
    input_tokens: row.input_tokens,
    output_tokens: row.output_tokens,
    total_tokens: row.input_tokens + row.output_tokens,
    cached_tokens: row.cache_read_tokens ?? 0,
    cost_usd: usd(row.cost_nanos),
    latency_ms: row.latency_ms,
    first_token_ms: row.first_token_ms,
    success: row.success,
    outcome: row.outcome,
    finish_reason: row.finish_reason,
  }
}

/** Lower-case UUIDs sort the same as text and in PostgreSQL. */
const earlier = (a: string, b: string) => (a < b ? a : b)
