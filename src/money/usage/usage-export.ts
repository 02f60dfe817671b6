import type { Sql } from '../../base/db/pool.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import { csvRecord } from '../../base/runtime/csv.ts'
import { lowestUuidAt } from '../../base/runtime/uuid.ts'
import { type ExportColumn, exportColumns } from '../../wire/api/reports.ts'
import { archivedBefore } from './archived-before.ts'
import { lastDays, type Period } from './period.ts'

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
 * `GET /v1/usage/export`: every admitted request of the last `days` UTC days, oldest first. Memory use does
 * not grow with their number. The first page is read before this returns, so an unavailable database causes
 * an error instead of a broken document.
 */
export async function usageExport(sql: Sql, customerId: string, days: number, nowMs: number): Promise<UsageExport> {
  const period = lastDays(days, nowMs)
  const [fromMs, untilMs] = [Date.parse(period.fromIso), Date.parse(period.untilIso)]
  const [firstPage, archived] = await Promise.all([
    readPage(sql, customerId, period, lowestUuidAt(fromMs - ID_SLACK_MS)),
    archivedBefore(sql, fromMs, untilMs),
  ])
  const lastDay = new Date(untilMs - 1).toISOString().slice(0, 10)
  return {
    fileName: `switchyard-usage-${period.fromIso.slice(0, 10)}-${lastDay}.csv`,
    archivedBefore: archived,
    csv: writeCsv(sql, customerId, period, firstPage),
  }
}

async function* writeCsv(sql: Sql, customerId: string, period: Period, firstPage: EventRow[]): AsyncGenerator<string> {
  yield csvRecord(exportColumns)
  let page = firstPage
  for (let last = page.at(-1); last !== undefined; last = page.at(-1)) {
    yield page.map(csvRow).join('')
    if (page.length < ROWS_PER_PAGE) return
    page = await readPage(sql, customerId, period, last.request_id)
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
async function readPage(sql: Sql, customerId: string, period: Period, after: string): Promise<EventRow[]> {
  const { rows } = await sql.query<EventRow>(
    `SELECT request_id, started_at, model_id, provider, input_tokens, output_tokens, cost_nanos, latency_ms, success
       FROM usage_event
      WHERE customer_id = $1 AND request_id > $2 AND request_id < $3 AND started_at >= $4 AND started_at < $5
      ORDER BY request_id
      LIMIT ${ROWS_PER_PAGE}`,
    [customerId, after, lowestUuidAt(Date.parse(period.untilIso) + ID_SLACK_MS), period.fromIso, period.untilIso],
  )
  return rows
}
