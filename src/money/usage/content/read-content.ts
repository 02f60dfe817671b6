import type { Sql } from '../../../base/db/pool.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { sayRefusal } from '../../../base/domain/refusals.ts'
import type { RequestContent } from '../../../base/domain/request-content.ts'
import type { ShownContent } from '../../../wire/api/activity.ts'
import { readRequestId } from '../../../wire/api/request-id.ts'

/** Decrypts what `ContentRecorder` has sealed; null: no master key of this gateway opens it. */
export type OpenContent = (sealed: Buffer, requestId: string) => string | null

interface ReadContent {
  readonly customerId: string
  readonly content: ShownContent
}

/**
 * Returns what was recorded of a request, of any customer if `customerId` is null. Rejects with `request_not_found` when nothing was
 * recorded, it is gone, or it cannot be decrypted.
 */
export async function readContent(
  sql: Sql,
  open: OpenContent,
  { customerId, requestId }: { readonly customerId: string | null; readonly requestId: string },
): Promise<ReadContent> {
  const id = readRequestId(requestId)
  if (id === undefined) throw nothingRecorded()
  const { rows } = await sql.query<{ customerId: string; sealed: Buffer }>(
    `SELECT customer_id AS "customerId", sealed FROM request_content
      WHERE request_id = $1 AND ($2::uuid IS NULL OR customer_id = $2)`,
    [id, customerId],
  )
  const [row] = rows
  const opened = row === undefined ? null : open(row.sealed, id)
  if (row === undefined || opened === null) throw nothingRecorded()
  const { messages, answer, redactions, isCut } = JSON.parse(opened) as RequestContent
  const content = { object: 'usage.content' as const, id, messages: [...messages], answer, redactions, is_cut: isCut }
  return { customerId: row.customerId, content }
}

function nothingRecorded(): ApiError {
  return new ApiError('request_not_found', { message: sayRefusal('refusal.nothing_recorded') })
}
