import type { Sql } from '../../base/db/pool.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import { csvRecord } from '../../base/runtime/csv.ts'
import { lowestUuidAt } from '../../base/runtime/uuid.ts'
import type { ExportQuery } from '../../wire/api/activity.ts'
import { type ExportColumn, exportColumns } from '../../wire/api/reports.ts'
import { archivedBefore } from './archived-before.ts'
import { type Conditions, readSpan, requestConditions } from './list-requests.ts'
import { lastDays } from './period.ts'

/** A CSV document that is sent while its rows are read from the database. */
export interface UsageExport {
  readonly fileName: string
  /** ISO 8601. Requests of the period that began before it are archived and have no row, except refunded ones. Null when there are none. */
  readonly archivedBefore: string | null
  /** Pieces of up to 1,000 rows. Reading stops when the consumer stops; between pieces no connection is held. */
  readonly csv: AsyncIterable<string>
}

const ROWS_PER_PAGE = 1000

/**
 * `GET /v1/usage/export`: every admitted request of a period that passes the filters, oldest first. Memory use does
 * not grow with their number. The first page is read before this returns, so an unavailable database causes
 * an error instead of a broken document. Throws `invalid_value` for a period that ends before it begins, or is given twice.
 */
export async function usageExport(
  sql: Sql,
  customerId: string,
  query: ExportQuery,
  nowMs: number,
): Promise<UsageExport> {
  const { fromMs, untilMs } = spanOf(query, nowMs)
  const span = { from: new Date(fromMs).toISOString(), to: new Date(untilMs).toISOString() }
  const source = { sql, customerId, untilMs, filters: requestConditions({ ...query, ...span }, 4) }
  const [firstPage, archived] = await Promise.all([
    readPage(source, lowestUuidAt(Math.max(0, fromMs - ID_SLACK_MS))),
    archivedBefore(sql, fromMs, untilMs),
  ])
  const day = (epochMs: number) => new Date(epochMs).toISOString().slice(0, 10)
  return {
    fileName: `switchyard-usage-${fromMs === 0 ? '' : `${day(fromMs)}-`}${day(untilMs - 1)}.csv`,
    archivedBefore: archived,
    csv: writeCsv(source, firstPage),
  }
}

/** From the first request on, and until the end of today, as far as the query does not say. */
function spanOf(query: ExportQuery, nowMs: number): { readonly fromMs: number; readonly untilMs: number } {
  const { fromMs, toMs } = readSpan(query)
  const isDays = fromMs === undefined && toMs === undefined
  if (query.days !== undefined && !isDays)
    throw new ApiError('invalid_value', { param: 'days', message: 'Send "days", or "from" and "to".' })
  const period = lastDays(query.days ?? 30, nowMs)
  const untilMs = toMs ?? Date.parse(period.untilIso)
  return { fromMs: isDays ? Date.parse(period.fromIso) : (fromMs ?? 0), untilMs }
}

/** The requests of an export. */
interface Source {
  readonly sql: Sql
  readonly customerId: string
  readonly untilMs: number
  /** With the period. */
  readonly filters: Conditions
}

async function* writeCsv(source: Source, firstPage: EventRow[]): AsyncGenerator<string> {
  yield csvRecord(exportColumns)
  let page = firstPage
  for (let last = page.at(-1); last !== undefined; last = page.at(-1)) {
    yield page.map(csvRow).join('')
    if (page.length < ROWS_PER_PAGE) return
    page = await readPage(source, last.request_id)
  }
}

interface EventRow {
  request_id: string
  started_at: Date
  model_id: string
  provider: string
  input_tokens: number
  output_tokens: number
  cost_nanos: Nanos
  latency_ms: number
  success: boolean
  outcome: string
  key_id: string | null
  key_name: string | null
  label: string | null
  member: string | null
}

/** The cell of each column: a column without one does not compile. */
const cells: Record<ExportColumn, (row: EventRow) => string> = {
  timestamp: row => row.started_at.toISOString(),
  model: row => row.model_id,
  provider: row => row.provider,
  input_tokens: row => String(row.input_tokens),
  output_tokens: row => String(row.output_tokens),
  total_tokens: row => String(row.input_tokens + row.output_tokens),
  cost_usd: row => usdText(row.cost_nanos),
  latency_ms: row => String(row.latency_ms),
  success: row => String(row.success),
  request_id: row => row.request_id,
  outcome: row => row.outcome,
  key_id: row => row.key_id ?? '',
  key: row => row.key_name ?? '',
  label: row => row.label ?? '',
  member: row => row.member ?? '',
}

function csvRow(row: EventRow): string {
  return csvRecord(exportColumns.map(column => cells[column](row)))
}

/**
 * The id and the start of a request may come from two clocks: when a node died, the start is the time when
 * PostgreSQL granted the lease.
 */
export const ID_SLACK_MS = DAY_MS

/**
 * Reads the next page after a request id along the primary key. UUIDv7 ids are ordered by time, like the
 * partitions.
 */
async function readPage({ sql, customerId, untilMs, filters }: Source, after: string): Promise<EventRow[]> {
  const { rows } = await sql.query<EventRow>(
    `SELECT page.*, k.name AS key_name, p.email AS member
       FROM (SELECT request_id, started_at, model_id, provider, input_tokens, output_tokens, cost_nanos, latency_ms, success,
                    outcome, key_id, label
               FROM usage_event
              WHERE customer_id = $1 AND request_id > $2 AND request_id < $3 AND ${filters.sql}
              ORDER BY request_id
              LIMIT ${ROWS_PER_PAGE}) page
       LEFT JOIN api_key k USING (key_id) LEFT JOIN person p USING (person_id)
      ORDER BY request_id`,
    [customerId, after, lowestUuidAt(untilMs + ID_SLACK_MS), ...filters.values],
  )
  return rows
}
