import type { Queryable } from './queryable.ts'

/**
 * Opens the money account of an existing customer and grants the signup credit, each at most once however often it is called.
 * `creditNanos` may be 0. Returns whether the credit was granted now. Works inside a transaction.
 */
export async function openAccount(db: Queryable, customerId: string, creditNanos: bigint): Promise<boolean> {
  const { rows } = await db.query({
    text: 'SELECT open_account($1, $2)',
    rowMode: 'array',
    values: [customerId, creditNanos],
  })
  return rows[0]![0] as boolean
}
