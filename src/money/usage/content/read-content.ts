import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { sayRefusal } from '../../../base/domain/refusals.ts'
import type { RequestContent } from '../../../base/domain/request-content.ts'
import type { ShownContent } from '../../../wire/api/activity.ts'
import { readRequestId } from '../../../wire/api/request-id.ts'

/** Decrypts what `ContentRecorder` has sealed. */
export type OpenContent = (sealed: Buffer, requestId: string) => string

/** Returns what was recorded of a request; null if nothing was, or it is gone. `customerId` null: of any customer. */
export async function readContent(
  sql: Sql,
  open: OpenContent,
  requestId: string,
  customerId: string | null,
): Promise<{ readonly customerId: string; readonly content: RequestContent } | null> {
  const { rows } = await sql.query<{ customerId: string; sealed: Buffer }>(
    `SELECT customer_id AS "customerId", sealed FROM request_content
      WHERE request_id = $1 AND ($2::uuid IS NULL OR customer_id = $2)`,
    [requestId, customerId],
  )
  const [row] = rows
  if (row === undefined) return null
  return { customerId: row.customerId, content: JSON.parse(open(row.sealed, requestId)) as RequestContent }
}

/** Shows what was recorded of a request of a customer. Rejects with `request_not_found`, and `database_unavailable`. */
export async function showContentOf(
  sql: Sql,
  open: OpenContent,
  customerId: string,
  requestId: string,
): Promise<ShownContent> {
  const id = readRequestId(requestId)
  const found = id === undefined ? null : await readContent(sql, open, id, customerId)
  if (id !== undefined && found !== null) return showContent(id, found.content)
  throw new ApiError('request_not_found', { message: sayRefusal('refusal.nothing_recorded') })
}

/** Returns recorded content as the API shows it. */
export function showContent(id: string, { messages, answer, redactions, isCut }: RequestContent): ShownContent {
  return { object: 'usage.content', id, messages: [...messages], answer, redactions, is_cut: isCut }
}

/** Deletes what was recorded of all requests of a customer. */
export async function deleteContents(sql: Sql, customerId: string): Promise<void> {
  await sql.query('DELETE FROM request_content WHERE customer_id = $1', [customerId])
}

const DAYS_AHEAD = 2

/**
 * Prepares the partitions of this day and the next two, and drops what is older than `days`. Returns the names of the
 * dropped ones. Run it at the start and once an hour.
 */
export async function keepContentDays(sql: Sql, nowEpochMs: number, days: number): Promise<readonly string[]> {
  const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)
  const { rows } = await sql.query<{ dropped: string[] }>('SELECT keep_content_days($1, $2, $3) AS dropped', [
    dayOf(nowEpochMs),
    DAYS_AHEAD,
    dayOf(nowEpochMs - days * DAY_MS),
  ])
  return rows[0]?.dropped ?? []
}
