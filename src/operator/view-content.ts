import { noteAction } from '../base/db/audit-log.ts'
import { type Pool, transaction } from '../base/db/pool.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import type { Acting } from '../base/domain/acting.ts'
import { type OpenContent, readContent } from '../money/usage/content/read-content.ts'
import type { ShownContent } from '../wire/api/activity.ts'

/**
 * Returns what was recorded of a request, of any customer if `customerId` is null. Each access is in the audit log, whoever reads: a
 * person, or a key of the customer. It is in the same transaction, so nothing is shown without its entry. Rejects with
 * `request_not_found` or `database_unavailable`.
 */
export function viewContent(
  pool: Pool,
  open: OpenContent,
  { personId, keyId, address }: Acting,
  place: { readonly customerId: string | null; readonly requestId: string },
): Promise<ShownContent> {
  return transaction(pool, async sql => {
    const { customerId, content } = await readContent(sql, open, place)
    const action = 'request.content_viewed'
    await noteAction(sql, { action, personId, keyId, address, subject: content.id, customerId })
    return content
  }).catch(refuseOutage)
}
