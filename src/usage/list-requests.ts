import type { Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import type { Outcome } from '../domain/handoff.ts'
import { lowestUuidAt } from '../domain/lowest-uuid.ts'
import { type Nanos, usd } from '../domain/money.ts'
import type { ListedRequest, RequestPage, RequestsQuery } from '../wire/activity.ts'

/**
 * One page of a customer's requests, newest first, along the primary key: a cursor names the last row seen and not a number of rows, so
 * whatever is added above it, the next page begins where this one ended, and page 10,000 costs what the first does.
 */
export async function listRequests(sql: Sql, customerId: string, query: RequestsQuery): Promise<RequestPage> {
  const fromMs = query.from === undefined ? undefined : Date.parse(query.from)
  const toMs = query.to === undefined ? undefined : Date.parse(query.to)
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
    throw new ApiError('invalid_value', { param: 'from', message: '"from" must be earlier than "to".' })
  }
  const below = earlier(
    query.cursor === undefined ? HIGHEST_UUID : requestIdOf(query.cursor),
    toMs === undefined ? HIGHEST_UUID : lowestUuidAt(toMs + ID_SLACK_MS),
  )
  const lowest = lowestUuidAt(Math.max(0, (fromMs ?? 0) - ID_SLACK_MS))
  const wanted = conditions(query, fromMs, toMs)
  const floor = wanted.areRare ? await floorOfScan(sql, customerId, below, lowest) : null
  const rows = await readPage(sql, [customerId, below, floor ?? lowest, query.limit + 1], wanted)

  const page = rows.slice(0, query.limit)
  const last = rows.length > query.limit ? page.at(-1)!.request_id : floor
  return {
    object: 'list',
    data: page.map(listed),
    has_more: last !== null,
    next_cursor: last === null ? null : cursorAt(last),
  }
}

/** Id and start of a request may come from two clocks: of a node that died, the start is when PostgreSQL granted the lease. */
const ID_SLACK_MS = 86_400_000
const HIGHEST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/**
 * A page looks through this many rows at most. A filter that hardly any row passes would otherwise read millions of them for one page;
 * so it gets short pages, even empty ones, each of which takes some 15 ms.
 */
const ROWS_SCANNED = 10_000

interface Conditions {
  readonly sql: string
  readonly values: readonly unknown[]
  /** They may pass few of the rows they look at. The period is no such condition: rows are in the order of time. */
  readonly areRare: boolean
}

/** The filters, with parameters from $5 on. */
function conditions(query: RequestsQuery, fromMs: number | undefined, toMs: number | undefined): Conditions {
  const filters: [sql: string, value: unknown][] = []
  if (query.model !== undefined) filters.push(['model_id =', query.model])
  if (query.key !== undefined) filters.push(['key_id =', query.key])
  if (query.provider !== undefined) filters.push(['provider =', query.provider])
  if (query.success !== undefined) filters.push(['success =', query.success === 'true'])
  const areRare = filters.length > 0
  if (fromMs !== undefined) filters.push(['started_at >=', new Date(fromMs)])
  if (toMs !== undefined) filters.push(['started_at <', new Date(toMs)])
  return {
    sql: filters.map(([condition], index) => ` AND ${condition} $${5 + index}`).join(''),
    values: filters.map(([, value]) => value),
    areRare,
  }
}

/** The id that this page may look down to; null when fewer rows than that are left. An index alone answers it. */
async function floorOfScan(sql: Sql, customerId: string, below: string, lowest: string): Promise<string | null> {
  const { rows } = await sql.query<{ request_id: string }>(
    `SELECT request_id
       FROM usage_event
      WHERE customer_id = $1 AND request_id < $2 AND request_id >= $3
      ORDER BY request_id DESC
     OFFSET ${ROWS_SCANNED - 1} LIMIT 1`,
    [customerId, below, lowest],
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

async function readPage(sql: Sql, keyset: readonly unknown[], wanted: Conditions): Promise<EventRow[]> {
  const { rows } = await sql.query<EventRow>(
    `SELECT request_id, started_at, key_id, model_id, provider, hoster_id, input_tokens, output_tokens, cost_nanos,
            latency_ms, first_token_ms, success, outcome, finish_reason
       FROM usage_event
      WHERE customer_id = $1 AND request_id < $2 AND request_id >= $3${wanted.sql}
      ORDER BY request_id DESC
      LIMIT $4`,
    [...keyset, ...wanted.values],
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

/** A cursor is the id in another spelling, so that nobody is led to compute one. */
function cursorAt(requestId: string): string {
  return Buffer.from(requestId.replaceAll('-', ''), 'hex').toString('base64url')
}

function requestIdOf(cursor: string): string {
  const hex = Buffer.from(cursor, 'base64url').toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
