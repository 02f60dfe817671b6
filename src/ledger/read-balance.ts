import type { Sql } from '../db/pool.ts'

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

// Counters of a window that is over are zero; only the next admission writes that down.
const READ_BALANCE = `
SELECT posted_nanos AS "postedNanos", leased_nanos AS "leasedNanos", posted_nanos - leased_nanos AS "freeNanos",
  CASE WHEN day >= today THEN day_spent_nanos ELSE 0 END AS "daySpentNanos",
  CASE WHEN day >= today THEN day_leased_nanos ELSE 0 END AS "dayLeasedNanos",
  CASE WHEN minute >= date_trunc('minute', now(), 'UTC') THEN minute_requests ELSE 0 END AS "minuteRequests",
  CASE WHEN day >= today THEN day_requests ELSE 0 END AS "dayRequests"
FROM balance, (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS t
WHERE customer_id = $1`
