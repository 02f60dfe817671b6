import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import type { Nanos } from '../../../base/domain/money.ts'

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

/** Like `readBalance`, of a customer that has an account. */
export function balanceOf(db: Sql, customerId: string): Promise<Balance> {
  return queryRow<Balance>(db, READ_BALANCE, [customerId])
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

/** Returns the balance of every customer by customer id. Holds of running requests are not subtracted. */
export async function listBalances(sql: Sql): Promise<ReadonlyMap<string, Nanos>> {
  const { rows } = await sql.query<{ customer_id: string; posted_nanos: bigint }>(
    // Charges of bulk leases since their last fold are spent: see readBalance.
    `SELECT customer_id, posted_nanos - coalesce(settled, 0) AS posted_nanos
     FROM balance LEFT JOIN (SELECT customer_id, sum(settled_nanos)::bigint AS settled FROM lease GROUP BY customer_id) AS l USING (customer_id)`,
  )
  return new Map(rows.map(row => [row.customer_id, row.posted_nanos]))
}

/** Returns what a customer owes for payments that were taken back after they were spent. */
export async function readDebt(sql: Sql, customerId: string): Promise<Nanos> {
  const { rows } = await sql.query<{ debt: Nanos }>('SELECT debt_nanos AS debt FROM balance WHERE customer_id = $1', [
    customerId,
  ])
  return rows[0]?.debt ?? 0n
}
