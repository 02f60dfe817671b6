import type { Sql } from '../../../base/db/pool.ts'

/**
 * Returns the customer of a settled request, or undefined when there is no such request. Probes each customer
 * in turn, since the key of usage rows begins with the customer: 10,000 customers are 10,000 probes, instead
 * of a scan of a month of requests.
 */
export async function payerOfRequest(sql: Sql, requestId: string): Promise<string | undefined> {
  const { rows } = await sql.query<{ customer_id: string }>(
    // OFFSET 0 makes the planner probe each customer. It may plan a join as a scan.
    `SELECT b.customer_id
       FROM balance b, LATERAL (
         SELECT FROM usage_event u WHERE u.customer_id = b.customer_id AND u.request_id = $1 OFFSET 0
       ) AS found
      LIMIT 1`,
    [requestId],
  )
  return rows[0]?.customer_id
}
