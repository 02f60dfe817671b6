import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { compose } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import type { Sql } from '../../../base/db/pool.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { systemErrorText } from '../../../base/runtime/error-message.ts'
import { lowestUuidAt } from '../../../base/runtime/uuid.ts'
import type { UsageEventSpan } from '../../../wire/api/operator/usage.ts'
import { ID_SLACK_MS } from '../usage-export.ts'
import { readUsageEvent, type UsageEvent } from './usage-event-columns.ts'

/** Thrown when the events cannot be read completely. The message is a sentence for the operator. */
export class UsageEventsRefused extends Error {
  override name = 'UsageEventsRefused'
}

const ROWS_PER_PAGE = 5_000
const LOWEST_UUID = '00000000-0000-0000-0000-000000000000'

/**
 * Yields the usage events of all customers that started in the span: month by month, from the database or from the file of an
 * archived month, and in a month by customer and request. Holds a page at a time, and no connection between pages. A file that is
 * missing is noticed before the first page.
 *
 * @param archives the directory of the files
 * @throws UsageEventsRefused for a file that is missing, differs or cannot be read, and for a month that was archived meanwhile
 */
export async function* readUsageEvents(sql: Sql, span: UsageEventSpan, archives: string): AsyncGenerator<UsageEvent[]> {
  await requireFiles(sql, span, archives)
  for (const month of monthsOf(span)) {
    const before = await stateOf(sql, month)
    const pages =
      before.state === 'archived' ? archivedLines(archives, before) : storedLines(sql, month, before.state, span)
    for await (const lines of pages) {
      const events = lines.map(readUsageEvent).filter(({ started_at: at }) => isWithin(at, span))
      if (events.length > 0) yield events
    }
    if ((await stateOf(sql, month)).state !== before.state)
      throw new UsageEventsRefused(`The rows of ${month.name} were archived while they were read. Export them again.`)
  }
}

function isWithin(at: Date, { fromMs, untilMs }: UsageEventSpan): boolean {
  return at.getTime() >= fromMs && at.getTime() < untilMs
}

interface Month {
  /** `2026-01` */
  readonly name: string
  /** The ids of its requests that may have started in the span. The id decides the month of a row. */
  readonly fromId: string
  readonly untilId: string
}

/** The months whose rows may have started in the span. */
function* monthsOf({ fromMs, untilMs }: UsageEventSpan): Generator<Month> {
  const [firstMs, lastMs] = [Math.max(0, fromMs - ID_SLACK_MS), untilMs + ID_SLACK_MS]
  const first = new Date(firstMs)
  for (let year = first.getUTCFullYear(), month = first.getUTCMonth(); ; month++) {
    const [startMs, endMs] = [Date.UTC(year, month), Date.UTC(year, month + 1)]
    if (startMs >= lastMs) return
    const name = new Date(startMs).toISOString().slice(0, 7)
    yield {
      name,
      fromId: lowestUuidAt(Math.max(startMs, firstMs)),
      untilId: lowestUuidAt(Math.min(endMs, lastMs)),
    }
  }
}

async function requireFiles(sql: Sql, span: UsageEventSpan, directory: string): Promise<void> {
  const { rows } = await sql.query<{ fileName: string }>(
    `SELECT file_name AS "fileName" FROM usage_archive WHERE month = ANY($1::date[]) AND file_name IS NOT NULL ORDER BY month`,
    [Array.from(monthsOf(span), ({ name }) => `${name}-01`)],
  )
  for (const { fileName } of rows) {
    const path = join(directory, fileName)
    await access(path).catch(error => refuseFile(path, error))
  }
}

type MonthState =
  | { readonly state: 'live' | 'frozen' }
  | { readonly state: 'archived'; readonly fileName: string; readonly sha256: string }

async function stateOf(sql: Sql, { name }: Month): Promise<MonthState> {
  const { rows } = await sql.query<{ fileName: string | null; sha256: string | null }>(
    'SELECT file_name AS "fileName", file_sha256 AS "sha256" FROM usage_archive WHERE month = $1',
    [`${name}-01`],
  )
  if (rows[0] === undefined) return { state: 'live' }
  const { fileName, sha256 } = rows[0]
  return fileName === null || sha256 === null ? { state: 'frozen' } : { state: 'archived', fileName, sha256 }
}

/** Yields pages of rows of the database. */
async function* storedLines(
  sql: Sql,
  { fromId, untilId }: Month,
  state: 'live' | 'frozen',
  { fromMs, untilMs }: UsageEventSpan,
): AsyncGenerator<string[]> {
  const table = state === 'live' ? 'usage_event' : 'usage_frozen'
  let after = [LOWEST_UUID, LOWEST_UUID]
  for (;;) {
    const { rows } = await sql.query<{ customer_id: string; request_id: string; line: string }>(
      `SELECT customer_id, request_id, row_to_json(u)::text AS line FROM ${table} u
        WHERE request_id >= $1 AND request_id < $2 AND started_at >= $3 AND started_at < $4 AND (customer_id, request_id) > ($5, $6)
        ORDER BY customer_id, request_id LIMIT $7`,
      [fromId, untilId, new Date(fromMs), new Date(untilMs), ...after, ROWS_PER_PAGE],
    )
    if (rows.length > 0) yield rows.map(({ line }) => line)
    if (rows.length < ROWS_PER_PAGE) return
    const last = elementAt(rows, rows.length - 1)
    after = [last.customer_id, last.request_id]
  }
}

/** Yields the lines of a file, after its checksum. */
async function* archivedLines(
  directory: string,
  { fileName, sha256 }: { readonly fileName: string; readonly sha256: string },
): AsyncGenerator<string[]> {
  const path = join(directory, fileName)
  const found = await checksumOf(path).catch(error => refuseFile(path, error))
  if (found !== sha256) throw unusableFile(path, 'is not the one that was written')
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of compose(createReadStream(path), createGunzip()) as AsyncIterable<Buffer>) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield lines
  }
  if (rest !== '') yield [rest]
}

/** Returns the checksum in hexadecimal. */
async function checksumOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

function refuseFile(path: string, error: unknown): never {
  const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
  throw unusableFile(path, isMissing ? 'is missing' : `cannot be read (${systemErrorText(error)})`)
}

function unusableFile(path: string, fault: string): UsageEventsRefused {
  return new UsageEventsRefused(
    `${path} ${fault}: its rows are not in the database. Put it there, or name its directory with usage.archive_directory, or with --archives of a command.`,
  )
}
