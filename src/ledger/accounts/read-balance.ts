import type { Sql } from '../../db/pool.ts'

/** An account at one moment, in nano-USD. */
export interface Balance {
  /** Credit granted minus everything charged; what a customer is shown. Holds of running requests are not spent money. */
  readonly postedNanos: bigint
  /** Held by running requests. */
  readonly leasedNanos: bigint
  /** Free to be held: posted - leased. */
  readonly freeNanos: bigint
  /** Charged against today's spend cap (UTC), and held against it. */
  readonly daySpentNanos: bigint
  readonly dayLeasedNanos: bigint
  readonly minuteRequests: number
  readonly dayRequests: number
}

/** Reads an account without a lock; undefined when the customer has none. */
export async function readBalance(db: Sql, customerId: string): Promise<Balance | undefined> {
  const { rows } = await db.query<Balance>(READ_BALANCE, [customerId])
  return rows[0]
}

// Counters of a window that is over are zero; only the next admission writes that down. What bulk leases were charged since their last fold
// is spent, though the balance row does not know it yet. One statement, so that both are of the same moment.
const READ_BALANCE = `
SELECT posted_nanos - settled AS "postedNanos", leased_nanos - settled AS "leasedNanos", posted_nanos - leased_nanos AS "freeNanos",
  CASE WHEN day >= today THEN day_spent_nanos + settled_today ELSE 0 END AS "daySpentNanos",
  CASE WHEN day >= today THEN day_leased_nanos - settled_today ELSE 0 END AS "dayLeasedNanos",
  CASE WHEN minute >= date_trunc('minute', now(), 'UTC') THEN minute_requests ELSE 0 END AS "minuteRequests",
  CASE WHEN day >= today THEN day_requests ELSE 0 END AS "dayRequests"
FROM balance b, (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS t,
  LATERAL (
    SELECT coalesce(sum(l.settled_nanos), 0)::bigint AS settled, coalesce(sum(l.settled_nanos) FILTER (WHERE l.cap_day = b.day), 0)::bigint AS settled_today
    FROM lease l WHERE l.customer_id = b.customer_id AND l.slots IS NOT NULL
  ) AS s
WHERE b.customer_id = $1`
