import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'

/**
 * Opens the money account of an existing customer and grants the signup credit. Each happens at most once,
 * however often the function is called. `creditNanos` may be 0. Returns whether the credit was granted now.
 * Works inside a transaction.
 */
export async function openAccount(db: Sql, customerId: string, creditNanos: bigint): Promise<boolean> {
  const { granted } = await queryRow<{ granted: boolean }>(db, 'SELECT open_account($1, $2) AS granted', [
    customerId,
    creditNanos,
  ])
  return granted
}

/** An error that only a bug can cause: every customer with a key has an account. */
export function noAccount(customerId: string): Error {
  return new Error(`customer ${customerId} has no account: openAccount was never called`)
}
