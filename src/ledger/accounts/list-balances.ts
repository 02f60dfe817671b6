import type { Sql } from '../../db/pool.ts'
import type { Nanos } from '../../domain/money.ts'

/** What every customer has, by customer id, holds of running requests not taken off. */
export async function listBalances(sql: Sql): Promise<ReadonlyMap<string, Nanos>> {
  const { rows } = await sql.query<{ customer_id: string; posted_nanos: bigint }>(
    // What bulk leases were charged since their last fold is spent: see readBalance.
    `SELECT customer_id, posted_nanos - coalesce(settled, 0) AS posted_nanos
     FROM balance LEFT JOIN (SELECT customer_id, sum(settled_nanos)::bigint AS settled FROM lease GROUP BY customer_id) AS l USING (customer_id)`,
  )
  return new Map(rows.map(row => [row.customer_id, row.posted_nanos]))
}
