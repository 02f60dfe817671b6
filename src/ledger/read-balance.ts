import type { Queryable } from './queryable.ts'

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
export async function readBalance(db: Queryable, customerId: string): Promise<Balance | undefined> {
  const { rows } = await db.query({
    text: `SELECT posted_nanos, leased_nanos,
        CASE WHEN day >= today THEN day_spent_nanos ELSE 0 END, CASE WHEN day >= today THEN day_leased_nanos ELSE 0 END,
        CASE WHEN minute >= date_trunc('minute', now(), 'UTC') THEN minute_requests ELSE 0 END, CASE WHEN day >= today THEN day_requests ELSE 0 END
      FROM balance, (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS t WHERE customer_id = $1`,
    rowMode: 'array',
    values: [customerId],
  })
  const row = rows[0] as [string, string, string, string, number, number] | undefined
  if (row === undefined) return undefined
  const [postedNanos, leasedNanos, daySpentNanos, dayLeasedNanos] = [
    BigInt(row[0]),
    BigInt(row[1]),
    BigInt(row[2]),
    BigInt(row[3]),
  ]
  return {
    postedNanos,
    leasedNanos,
    freeNanos: postedNanos - leasedNanos,
    daySpentNanos,
    dayLeasedNanos,
    minuteRequests: row[4],
    dayRequests: row[5],
  }
}
