import { addCustomer, type Customer } from './auth/customers.ts'
import type { Config } from './config.ts'
import type { Sql } from './db/pool.ts'
import { openAccount } from './ledger/open-account.ts'

/**
 * A new customer with a money account and the signup credit. Run it in a transaction.
 * Returns undefined when the e-mail is taken.
 */
export async function createCustomer(
  sql: Sql,
  { signup }: Pick<Config, 'signup'>,
  { email, accountTier = signup.tier }: { email: string; accountTier?: string | undefined },
): Promise<Customer | undefined> {
  const customer = await addCustomer(sql, { email, accountTier })
  if (customer) await openAccount(sql, customer.customerId, signup.creditNanos)
  return customer
}
