import type { Sql } from '../db/pool.ts'

/** Returns those of these customers that share their requests and are not disabled. */
export async function sharingCustomers(sql: Sql, customerIds: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ customer_id: string }>(
    'SELECT customer_id FROM customer WHERE customer_id = ANY ($1) AND shares_requests AND disabled_at IS NULL',
    [customerIds],
  )
  return new Set(rows.map(({ customer_id }) => customer_id))
}
