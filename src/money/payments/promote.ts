import type { Sql } from '../../base/db/pool.ts'
import { promoteAccountTier } from '../accounts/customers.ts'
import { hasPaidCredit } from '../ledger/accounts/has-paid-credit.ts'

/**
 * Runs `give`, which may give a customer credit, and moves the customer from `free` to `standard` if that was its first
 * credit that is not promotion. Run it in a transaction.
 */
export async function promoteAfterFirstCredit<T>(sql: Sql, customerId: string, give: () => Promise<T>): Promise<T> {
  const hadCredit = await hasPaidCredit(sql, customerId)
  const result = await give()
  if (!hadCredit && (await hasPaidCredit(sql, customerId))) {
    await promoteAccountTier(sql, { customerId, from: 'free', to: 'standard' })
  }
  return result
}
