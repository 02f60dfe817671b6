import { noteAction } from '../base/db/audit-log.ts'
import type { Sql } from '../base/db/pool.ts'
import { HOUR_MS } from '../base/domain/durations.ts'
import { deleteOldest } from '../base/runtime/collections.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import type { SignedIn } from '../identity/people/sessions.ts'

/** A page asks for several things at once and again every few seconds. This is one look. */
const SAME_VISIT_MS = HOUR_MS
const VISITS_MAX = 10_000

/**
 * Notes in the audit log which customers and hosters an operator or auditor looked at, and which hosters a stranger
 * tried to change: once an hour for a session, a customer or hoster, and a node.
 */
export interface Visits {
  note(signedIn: SignedIn, visit: Visit, address: string): Promise<void>
}

export interface Visit {
  readonly action: 'customer.viewed' | 'hoster.viewed' | 'hoster.change_refused'
  /** The id of the customer or hoster. */
  readonly subject: string
}

export function createVisits({ sql, clock }: { readonly sql: Sql; readonly clock: Clock }): Visits {
  /** By session, action and subject, the oldest first. */
  const notedMs = new Map<string, number>()
  return {
    async note({ sessionId, person, key }, { action, subject }, address) {
      const visit = `${sessionId} ${action} ${subject}`
      const nowMs = clock.monotonicMs()
      if (nowMs - (notedMs.get(visit) ?? -Infinity) < SAME_VISIT_MS) return
      // Noted first: several requests of one page come at once.
      notedMs.delete(visit)
      notedMs.set(visit, nowMs)
      if (notedMs.size > VISITS_MAX) deleteOldest(notedMs)
      const isCustomer = action === 'customer.viewed'
      const entry = {
        action,
        personId: person.personId,
        keyId: key?.keyId ?? null,
        subject,
        customerId: isCustomer ? subject : null,
        detail: isCustomer ? {} : { hoster_id: subject },
        address,
      }
      await noteAction(sql, entry).catch((error: unknown) => {
        notedMs.delete(visit)
        throw error
      })
    },
  }
}
