import { noteAction } from '../base/db/audit-log.ts'
import { type Pool, transaction } from '../base/db/pool.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import { ApiError } from '../base/domain/errors.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import type { SignedIn } from '../identity/people/sessions.ts'
import { type OpenContent, readContent, showContent } from '../money/usage/content/read-content.ts'
import type { ShownContent } from '../wire/api/activity.ts'
import { readRequestId } from '../wire/api/request-id.ts'

/**
 * Returns what was recorded of a request, of any customer if `customerId` is null. Each look is in the audit log, in the same transaction: nothing is
 * shown without its entry. Rejects with `request_not_found`.
 */
export function viewContent(
  pool: Pool,
  open: OpenContent,
  { person, key }: SignedIn,
  place: { readonly customerId: string | null; readonly requestId: string },
  address: string,
): Promise<ShownContent> {
  const requestId = readRequestId(place.requestId)
  return transaction(pool, async sql => {
    const found = requestId === undefined ? null : await readContent(sql, open, requestId, place.customerId)
    if (requestId === undefined || found === null)
      throw new ApiError('request_not_found', { message: sayRefusal('refusal.nothing_recorded') })
    await noteAction(sql, {
      action: 'request.content_viewed',
      personId: person.personId,
      keyId: key?.keyId ?? null,
      subject: requestId,
      customerId: found.customerId,
      address,
    })
    return showContent(requestId, found.content)
  }).catch(refuseOutage)
}
