import type { Sql } from '../../db/pool.ts'
import type { Nanos } from '../../domain/money.ts'

/** Where an account stands and how it came there: balance = granted + refunded - spent, exactly. */
export interface Credits {
  /** Holds are part of it. */
  readonly balanceNanos: Nanos
  /** Signup credit and all credit since. */
  readonly grantedNanos: Nanos
  /** Charged, refunded charges included. */
  readonly spentNanos: Nanos
  readonly refundedNanos: Nanos
  /** Held right now, for running requests and by nodes for the next ones. */
  readonly heldNanos: Nanos
}

/** Undefined when the customer has no account. */
export async function readCredits(sql: Sql, customerId: string): Promise<Credits | undefined> {
  const { rows } = await sql.query<Credits>(READ_CREDITS, [customerId])
  return rows[0]
}

// One statement, so that all of it is of one moment. What was spent is what was given and is not there any more: an account may have a
// million charges, and to sum them here would tell nothing that the audit does not prove.
const READ_CREDITS = `
SELECT b.balance AS "balanceNanos", g.given - r.refunded AS "grantedNanos", g.given - b.balance AS "spentNanos",
  r.refunded AS "refundedNanos", b.held AS "heldNanos"
FROM (
  SELECT o.posted_nanos - l.settled AS balance, o.leased_nanos - l.settled AS held
  FROM balance o, LATERAL (
    SELECT coalesce(sum(settled_nanos), 0)::bigint AS settled FROM lease WHERE customer_id = o.customer_id AND slots IS NOT NULL
  ) AS l
  WHERE o.customer_id = $1
) AS b, (
  SELECT coalesce(sum(amount_nanos), 0)::bigint AS given FROM ledger_entry
  WHERE account_kind = 'customer' AND account_id = $1 AND amount_nanos > 0
) AS g, (
  SELECT coalesce(sum(amount_nanos), 0)::bigint AS refunded FROM refund WHERE customer_id = $1
) AS r`
