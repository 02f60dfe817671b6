import type { Sql } from '../base/db/pool.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { type Customer, findCustomer } from '../money/accounts/customers.ts'
import { Failure } from './failure.ts'

/** Returns the customer with this e-mail address or id. Throws Failure, also for a deleted one. */
export async function resolveCustomer(sql: Sql, emailOrId: string): Promise<Customer> {
  const customer = await findCustomer(sql, emailOrId)
  if (customer?.deletedAt === null) return customer
  if (customer) throw new Failure(`The customer ${emailOrId} was deleted.`)
  return noCustomer(emailOrId)
}

export function noCustomer(emailOrId: string): never {
  throw new Failure(
    `There is no customer ${emailOrId}. List customers with: ${ownCommand('customer list')}, and deleted ones with --deleted`,
  )
}
