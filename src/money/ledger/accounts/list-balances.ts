import type { Sql } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'

/** Returns the balance of every customer by customer id. Holds of running requests are not subtracted. */
export async function listBalances(sql: Sql): Promise<ReadonlyMap<string, Nanos>> {
  const { rows } = await sql.query<{ customer_id: string; posted_nanos: bigint }>(
    // Charges of bulk leases since their last fold are spent: see readBalance.
    `SELECT customer_id, posted_nanos - coalesce(settled, 0) AS posted_nanos
     FROM balance LEFT JOIN (SELECT customer_id, sum(settled_nanos)::bigint AS settled FROM lease GROUP BY customer_id) AS l USING (customer_id)`,
  )
  return new Map(rows.map(row => [row.customer_id, row.posted_nanos]))
}
