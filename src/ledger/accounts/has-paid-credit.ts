import type { Sql } from '../../db/pool.ts'

/** Whether a customer ever got credit other than the signup credit: granted, paid for or by a voucher. */
export async function hasPaidCredit(sql: Sql, customerId: string): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(
    `SELECT EXISTS (
       SELECT FROM ledger_entry JOIN ledger_tx USING (tx_id)
        WHERE account_kind = 'customer' AND account_id = $1 AND kind IN ('credit', 'payment', 'voucher')) AS found`,
    [customerId],
  )
  return rows[0]!.found
}
