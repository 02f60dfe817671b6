import { type Customer, findCustomer } from '../accounts/customers.ts'
import type { Sql } from '../db/pool.ts'
import { Failure } from './failure.ts'

/** The customer that was named by e-mail or id. Throws Failure. */
export async function resolveCustomer(sql: Sql, emailOrId: string): Promise<Customer> {
  const customer = await findCustomer(sql, emailOrId)
  if (customer) return customer
  throw new Failure(`There is no customer ${emailOrId}. List them with: switchyard customer list`)
}
