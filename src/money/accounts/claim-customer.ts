import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { createCustomer } from './create-customer.ts'

/**
 * Returns the customer with this e-mail for a person who has proved to own it: one that the operator made and that has no
 * member, or a new one. Returns undefined if the customer has members. Run it in a transaction.
 *
 * @param open opens the money account of a new customer
 */
export async function claimCustomer(
  sql: Sql,
  { signup }: { readonly signup: { readonly tier: string; readonly creditNanos: Nanos } },
  email: string,
  open: (customerId: string, creditNanos: Nanos) => Promise<void>,
): Promise<string | undefined> {
  const { rows } = await sql.query<{ customerId: string; hasMembers: boolean }>(
    `SELECT customer_id AS "customerId",
            EXISTS (SELECT FROM membership m WHERE m.customer_id = customer.customer_id) AS "hasMembers"
       FROM customer WHERE lower(email) = lower($1) AND deleted_at IS NULL FOR NO KEY UPDATE`,
    [email],
  )
  const [found] = rows
  if (found !== undefined) return found.hasMembers ? undefined : found.customerId
  return (await createCustomer(sql, { signup }, { email }, open))?.customerId
}
