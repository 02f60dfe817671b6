import type { Sql } from '../base/db/pool.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { hasValidChecksum, hintOf } from '../identity/auth/api-key.ts'
import { findKeys, type KeyListing } from '../identity/auth/keys.ts'
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

/** Returns the hoster with this name or id. Throws Failure. */
export async function resolveHoster(
  sql: Sql,
  nameOrId: string,
): Promise<{ readonly hosterId: string; readonly name: string }> {
  const { rows } = await sql.query<{ hosterId: string; name: string }>(
    'SELECT hoster_id AS "hosterId", name FROM hoster WHERE hoster_id::text = lower($1) OR name = $1',
    [nameOrId],
  )
  if (rows[0] === undefined) {
    throw new Failure(`There is no hoster ${nameOrId}. List hosters with: ${ownCommand('hoster list')}`)
  }
  return rows[0]
}

/** Returns the key with this id or hint, or the listing of the key itself. Throws Failure. */
export async function resolveKey(sql: Sql, text: string): Promise<KeyListing> {
  const [found, ...others] = await findKeys(sql, text)
  // Never repeat a whole key: the message may end up in a log.
  const shown = hasValidChecksum(text) ? hintOf(text) : text
  if (!found) throw new Failure(`There is no key ${shown}. List keys with: ${ownCommand('key list')}`)
  if (others.length > 0) throw new Failure(`More than one key matches ${shown}. Use the id of the key.`)
  return found
}
