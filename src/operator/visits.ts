import type { Sql } from '../db/pool.ts'
import { noteAction } from '../people/audit-log.ts'
import type { SignedIn } from '../people/sessions.ts'
import type { Clock } from '../runtime/clock.ts'

/** A page asks for several things at once and again every few seconds. This is one look. */
const SAME_VISIT_MS = 3_600_000
const VISITS_MAX = 10_000

/** Notes in the audit log which customers an operator or auditor looked at: once an hour for a session, a customer and a node. */
export interface Visits {
  note(signedIn: SignedIn, customerId: string, address: string): Promise<void>
}

export function createVisits({ sql, clock }: { readonly sql: Sql; readonly clock: Clock }): Visits {
  /** By session and customer, the oldest first. */
  const notedMs = new Map<string, number>()
  return {
    async note({ sessionId, person }, customerId, address) {
      const visit = `${sessionId} ${customerId}`
      const nowMs = clock.monotonicMs()
      if (nowMs - (notedMs.get(visit) ?? -Infinity) < SAME_VISIT_MS) return
      await noteAction(sql, {
        action: 'customer.viewed',
        personId: person.personId,
        subject: customerId,
        customerId,
        address,
      })
      notedMs.delete(visit)
      notedMs.set(visit, nowMs)
      if (notedMs.size > VISITS_MAX) notedMs.delete(notedMs.keys().next().value!)
    },
  }
}
