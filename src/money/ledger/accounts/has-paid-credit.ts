import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'

/** Whether a customer ever got credit that is not promotion: a grant, a payment or a voucher. */
export async function hasPaidCredit(sql: Sql, customerId: string): Promise<boolean> {
  const { found } = await queryRow<{ found: boolean }>(
    sql,
    `SELECT EXISTS (
       SELECT FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
        WHERE e.account_kind = 'customer' AND e.amount_nanos > 0 AND e.account_id = $1 AND t.kind IN ('credit', 'payment', 'voucher')
          AND EXISTS (SELECT FROM ledger_entry c WHERE c.tx_id = e.tx_id AND c.account_kind = 'cash')) AS found`,
    [customerId],
  )
  return found
}
