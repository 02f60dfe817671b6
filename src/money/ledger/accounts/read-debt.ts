import type { Sql } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'

/** Returns what a customer owes for payments that were taken back after they were spent. */
export async function readDebt(sql: Sql, customerId: string): Promise<Nanos> {
  const { rows } = await sql.query<{ debt: Nanos }>('SELECT debt_nanos AS debt FROM balance WHERE customer_id = $1', [
    customerId,
  ])
  return rows[0]?.debt ?? 0n
}
