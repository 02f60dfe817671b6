import type { Sql } from '../db/pool.ts'
import type { Nanos } from '../domain/money.ts'

/** What every customer has, by customer id, holds of running requests not taken off. */
export async function listBalances(sql: Sql): Promise<ReadonlyMap<string, Nanos>> {
  const { rows } = await sql.query<{ customer_id: string; posted_nanos: bigint }>(
    'SELECT customer_id, posted_nanos FROM balance',
  )
  return new Map(rows.map(row => [row.customer_id, row.posted_nanos]))
}
