import type { Sql } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'

/** A balance and how it came about: balance = granted + refunded - spent, exactly. */
export interface Credits {
  /** Includes holds. */
  readonly balanceNanos: Nanos
  /** The signup credit and all later credits, less what was taken back. */
  readonly grantedNanos: Nanos
  /** All charges, including refunded ones. */
  readonly spentNanos: Nanos
  readonly refundedNanos: Nanos
  /** Owed for payments that were taken back after they were spent. */
  readonly debtNanos: Nanos
  /**
   * Held for running requests, as far as the database knows. Without what requests hold of `ownLeases`, which only
   * their node knows.
   */
  readonly heldNanos: Nanos
  /** The open bulk leases of the node that reads. */
  readonly ownLeases: readonly string[]
}

/** Reads a balance and how it came about, as `nodeId` knows it; undefined when the customer has no account. */
export async function readCredits(sql: Sql, nodeId: string, customerId: string): Promise<Credits | undefined> {
  const { rows } = await sql.query<Credits>(READ_CREDITS, [customerId, nodeId])
  return rows[0]
}

// One statement, so that all figures are from the same snapshot. The spend is computed as what was given less what is
// left, since an account may have a million charges. The audit proves that their sum is the same.
const READ_CREDITS = `
SELECT b.balance AS "balanceNanos", g.given - r.refunded AS "grantedNanos", g.given - b.balance AS "spentNanos",
  r.refunded AS "refundedNanos", b.debt AS "debtNanos", b.held AS "heldNanos", b.own AS "ownLeases"
FROM (
  SELECT o.posted_nanos - l.settled AS balance, o.debt_nanos AS debt, o.leased_nanos - l.granted + l.owed AS held, l.own
  FROM balance o, LATERAL (
    SELECT coalesce(sum(settled_nanos), 0)::bigint AS settled, coalesce(sum(granted_nanos), 0)::bigint AS granted,
      coalesce(sum(least(owed_nanos, granted_nanos - settled_nanos)) FILTER (WHERE node_id <> $2), 0)::bigint AS owed,
      coalesce(array_agg(lease_id) FILTER (WHERE node_id = $2), '{}') AS own
    FROM lease WHERE customer_id = o.customer_id AND slots IS NOT NULL
  ) AS l
  WHERE o.customer_id = $1
) AS b, (
  SELECT coalesce(sum(amount_nanos), 0)::bigint AS given FROM (
    SELECT amount_nanos FROM ledger_entry WHERE account_kind = 'customer' AND account_id = $1 AND amount_nanos > 0
    UNION ALL SELECT -amount_nanos FROM credit_taken WHERE customer_id = $1
  ) AS credits
) AS g, (
  SELECT coalesce(sum(amount_nanos), 0)::bigint AS refunded FROM refund WHERE customer_id = $1
) AS r`
