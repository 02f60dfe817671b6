import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { openAccount } from '../ledger/accounts/open-account.ts'
import { addCustomer, type Customer } from './customers.ts'

/**
 * Creates a customer with a money account and the signup credit. Run it in a transaction.
 * Returns undefined when the e-mail is taken.
 *
 * @param open opens the account; the gateway may not open one without an operator
 */
export async function createCustomer(
  sql: Sql,
  { signup }: { readonly signup: { readonly tier: string; readonly creditNanos: Nanos } },
  { email, accountTier = signup.tier }: { email: string; accountTier?: string | undefined },
  open: (customerId: string, creditNanos: Nanos) => Promise<unknown> = (id, nanos) => openAccount(sql, id, nanos),
): Promise<Customer | undefined> {
  const customer = await addCustomer(sql, { email, accountTier })
  if (customer) await open(customer.customerId, signup.creditNanos)
  return customer
}
