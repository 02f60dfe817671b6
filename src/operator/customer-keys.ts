import type { Pool, Sql } from '../base/db/pool.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import { ApiError } from '../base/domain/errors.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { unused } from '../base/domain/spend.ts'
import { issueNoted } from '../identity/auth/key-ring.ts'
import {
  changeKey,
  findKeyInUse,
  findKeyItself,
  type KeyListing,
  type NewKey,
  revokeKey,
} from '../identity/auth/keys.ts'
import { noteKeyChanged, noteKeyRevoked } from '../identity/auth/note-key.ts'
import { readPastedKey } from '../identity/auth/pasted-key.ts'
import { findCustomer } from '../money/accounts/customers.ts'
import { readKeyUses } from '../money/usage/key-use.ts'
import { changedDefaults } from '../wire/api/key-defaults.ts'
import { changedLimit, type RequestedKeyChange } from '../wire/api/key-request.ts'
import { type Key, showKey } from '../wire/api/keys.ts'
import type { FoundKey, IssuedCustomerKey } from '../wire/api/operator/customers.ts'
import { type Actor, act } from './operator-action.ts'

// Keys of customers, as an operator makes, stops and finds them.

/**
 * Makes a key for a customer, like `switchyard key issue`. Rejects with `customer_not_found`, like `requireIssuable`, and like
 * `KeyRing.issue`.
 */
export function issueCustomerKey(
  pool: Pool,
  actor: Actor,
  customerId: string,
  order: Omit<NewKey, 'customerId'>,
): Promise<IssuedCustomerKey> {
  requireIssuable(actor, order)
  return act(pool, actor, async sql => {
    const customer = await findCustomer(sql, customerId)
    if (customer === undefined || customer.deletedAt !== null) throw new ApiError('customer_not_found')
    const { key, listing } = await issueNoted(sql, customerId, actor, async () => ({ ...order, customerId }))
    return { ...showKey(listing, unused), key }
  })
}

/**
 * Recorded content belongs to the customer, and programs of operators never read it: operators make no key that records, and their
 * keys make none that could read. Throws `invalid_value` or `role_not_allowed`.
 */
function requireIssuable(
  { keyId }: Actor,
  { recordsContent, scopes }: Pick<NewKey, 'recordsContent' | 'scopes'>,
): void {
  if (recordsContent === true)
    throw new ApiError('invalid_value', {
      param: 'record_content',
      message: 'Only the customer can have prompts and answers recorded. Leave "record_content" out.',
    })
  if (keyId !== null && scopes?.includes('manage'))
    throw new ApiError('role_not_allowed', {
      param: 'scopes',
      message:
        'A key with the scope "manage" can read what the customer has recorded, so keys of operators make none. Make it in the console.',
    })
}

/**
 * Changes the fields of a key that the order has, on all nodes within two seconds, as the customer does. Rejects with
 * `customer_not_found` or `not_found`, and like `requireIssuable`.
 */
export function changeCustomerKey(
  pool: Pool,
  actor: Actor,
  { customerId, keyId, change }: { customerId: string; keyId: string; change: RequestedKeyChange },
): Promise<Key> {
  requireIssuable(actor, change)
  return act(pool, actor, async sql => {
    const key = await findKeyInUse(sql, customerId, keyId)
    if (key === undefined) throw noSuchKey()
    const changed = await changeKey(sql, keyId, {
      ...change,
      limit: changedLimit(key, change),
      defaults: change.defaults === undefined ? undefined : changedDefaults(key.defaults, change.defaults),
      byOperator: true,
    })
    if (changed === undefined) throw noSuchKey()
    await noteKeyChanged(sql, actor, key, changed)
    const uses = await readKeyUses(sql, customerId, Date.now())
    return showKey(changed, uses.get(keyId) ?? unused)
  })
}

/** Pauses or resumes a key, on all nodes within two seconds. Rejects with `not_found`. */
export function setKeyPaused(
  pool: Pool,
  actor: Actor,
  { customerId, keyId, isPaused }: { customerId: string; keyId: string; isPaused: boolean },
): Promise<void> {
  return act(pool, actor, async sql => {
    const key = await findKeyInUse(sql, customerId, keyId)
    const changed = key && (await changeKey(sql, keyId, { isPaused, byOperator: true }))
    if (key === undefined || changed === undefined) throw noSuchKey()
    await noteKeyChanged(sql, actor, key, changed)
  })
}

/** Revokes a key like `switchyard key revoke`, on all nodes within two seconds. Rejects with `not_found`. */
export function revokeCustomerKey(pool: Pool, actor: Actor, customerId: string, keyId: string): Promise<void> {
  return act(pool, actor, async sql => {
    const key = await findKeyInUse(sql, customerId, keyId)
    if (key === undefined || !(await revokeKey(sql, keyId))) throw noSuchKey()
    await noteKeyRevoked(sql, actor, key)
  })
}

/** Finds the key that this text is or has in it, of any customer. Rejects with `not_found`, and like `readPastedKey`. */
export async function findCustomerKey(sql: Sql, text: string): Promise<FoundKey> {
  const found = await findKeyItself(sql, readPastedKey(text), null).catch(refuseOutage)
  if (found === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.key_of_nobody') })
  return {
    customer_id: found.customerId,
    customer_email: found.customerEmail,
    key_id: found.keyId,
    name: found.name,
    hint: found.hint,
    state: stateOf(found),
  }
}

function stateOf({ revokedAt, expiresAt, pausedAt }: KeyListing): FoundKey['state'] {
  if (revokedAt !== null) return 'revoked'
  if (expiresAt !== null && expiresAt.getTime() <= Date.now()) return 'expired'
  return pausedAt === null ? 'active' : 'paused'
}

function noSuchKey(): ApiError {
  return new ApiError('not_found', { message: sayRefusal('refusal.no_key_of_customer') })
}
