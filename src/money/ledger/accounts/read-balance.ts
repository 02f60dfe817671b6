import type { Sql } from '../../../base/db/pool.ts'

/** The state of an account, in nano-USD. */
export interface Balance {
  /** Credit less charges, as shown to the customer. Holds of running requests are not subtracted. */
  readonly postedNanos: bigint
  /** Held by leases: for running requests, and by nodes for the next ones. */
  readonly leasedNanos: bigint
  /** Available for new holds: posted - leased. */
  readonly freeNanos: bigint
  /** Charged and held against today's spend cap (UTC). */
  readonly daySpentNanos: bigint
  readonly dayLeasedNanos: bigint
}

/** Reads an account without a lock. Undefined when the customer has none. */
export async function readBalance(db: Sql, customerId: string): Promise<Balance | undefined> {
  const { rows } = await db.query<Balance>(READ_BALANCE, [customerId])
  return rows[0]
}

// Counters of a past window read as zero here; the next admission resets the stored ones. Charges of bulk
// leases since their last fold are spent, although the balance row does not have them yet. One statement
// reads both, so that they are from the same snapshot.
const READ_BALANCE = `
SELECT posted_nanos - settled AS "postedNanos", leased_nanos - settled AS "leasedNanos", posted_nanos - leased_nanos AS "freeNanos",
  CASE WHEN day >= today THEN day_spent_nanos + settled_today ELSE 0 END AS "daySpentNanos",
  CASE WHEN day >= today THEN day_leased_nanos - settled_today ELSE 0 END AS "dayLeasedNanos"
FROM balance b, (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS t,
  LATERAL (
    SELECT coalesce(sum(l.settled_nanos), 0)::bigint AS settled, coalesce(sum(l.settled_nanos) FILTER (WHERE l.cap_day = b.day), 0)::bigint AS settled_today
    FROM lease l WHERE l.customer_id = b.customer_id AND l.slots IS NOT NULL
  ) AS s
WHERE b.customer_id = $1`
