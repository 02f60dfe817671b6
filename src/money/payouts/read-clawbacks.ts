import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'

/** A row of `clawback`: see the migration of payouts. */
export interface Clawback {
  readonly clawbackId: string
  readonly cause: 'dispute' | 'fraud'
  readonly amountNanos: Nanos
  readonly reason: string
  /** The dispute of a payment; null: proven fraud. */
  readonly reversalId: string | null
  /** The operator's mail address. Null: the command line. */
  readonly madeBy: string | null
  readonly at: Date
  /** Null: the hoster did not get it back. */
  readonly returnedAt: Date | null
  readonly returnReason: string | null
}

/** Returns what was taken back from a hoster, the newest first. */
export async function clawbacksOfHoster(sql: Sql, hosterId: string): Promise<Clawback[]> {
  const { rows } = await sql.query<Clawback>(
    `SELECT c.clawback_id AS "clawbackId", c.cause, c.amount_nanos AS "amountNanos", c.reason, c.reversal_id AS "reversalId",
       coalesce(p.email, c.made_by::text) AS "madeBy", c.at, c.returned_at AS "returnedAt", c.return_reason AS "returnReason"
     FROM clawback c LEFT JOIN person p ON p.person_id = c.made_by
     WHERE c.hoster_id = $1 ORDER BY c.at DESC, c.clawback_id`,
    [hosterId],
  )
  return rows
}

/** A dispute of a payment that took more than claw-backs have charged to hosters. */
export interface Dispute {
  readonly reversalId: string
  /** The reference of the payment. */
  readonly reference: string
  /** The address of the customer; null for a deleted one. */
  readonly email: string | null
  readonly leftNanos: Nanos
  readonly reason: string
  readonly at: Date
}

/** Returns the newest 100 disputes that hosters may be charged for. */
export async function listDisputes(sql: Sql): Promise<Dispute[]> {
  const { rows } = await sql.query<Dispute>(
    `SELECT * FROM (
       SELECT r.reversal_id AS "reversalId", p.reference, c.email, r.reason, r.at, r.taken_nanos - r.returned_nanos
         - (SELECT coalesce(sum(b.amount_nanos), 0) FROM clawback b WHERE b.reversal_id = r.reversal_id AND b.returned_at IS NULL)::bigint
         AS "leftNanos"
       FROM payment_reversal r JOIN payment p USING (payment_id) LEFT JOIN customer c ON c.customer_id = r.customer_id
       WHERE r.kind = 'dispute'
     ) d WHERE "leftNanos" > 0 ORDER BY at DESC, "reversalId" LIMIT 100`,
  )
  return rows
}
