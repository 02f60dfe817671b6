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
  const noted = new Map<string, { readonly atMs: number; readonly written: Promise<void> }>()
  return {
    async note({ sessionId, person, key }, { action, subject }, address) {
      const visit = `${sessionId} ${action} ${subject}`
      const nowMs = clock.monotonicMs()
      const known = noted.get(visit)
      // Several requests of one page come at once. None is served before the entry is written.
      if (known !== undefined && nowMs - known.atMs < SAME_VISIT_MS) return known.written
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
      const look = { atMs: nowMs, written: noteAction(sql, entry) }
      noted.delete(visit)
      noted.set(visit, look)
      if (noted.size > VISITS_MAX) deleteOldest(noted)
      try {
        await look.written
      } catch (error) {
        if (noted.get(visit) === look) noted.delete(visit)
        throw error
      }
    },
  }
}
