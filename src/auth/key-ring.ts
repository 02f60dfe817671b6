import { type Pool, transaction } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import {
  countKeysInUse,
  findKeyInUse,
  type IssuedKey,
  issueKey,
  type KeyListing,
  type KeyOrder,
  listKeysInUse,
  revokeKey,
} from './keys.ts'

/** The keys of one customer each: those of anybody else do not exist for it. Everything rejects with `database_unavailable` without one. */
export interface KeyRing {
  /** Those not revoked, newest first. */
  list(customerId: string): Promise<KeyListing[]>
  /** Rejects with `invalid_value` when the customer has KEYS_MAX already. */
  issue(order: KeyOrder): Promise<IssuedKey & { readonly listing: KeyListing }>
  /** Shuts a key off on all nodes within two seconds. Rejects with `not_found` when `list` would not show it: it is another's, or was revoked. */
  revoke(customerId: string, keyId: string): Promise<void>
}

/** Per customer and not revoked: a list that can be read and shown in one go. Those that were revoked are never read: who makes and deletes keys all day has any number. */
export const KEYS_MAX = 1_000

export function createKeyRing(pool: Pool): KeyRing {
  return {
    list: customerId => listKeysInUse(pool, customerId).catch(refuse),
    issue: order =>
      transaction(pool, async sql => {
        const { customerId } = order
        // One at a time, so that the count holds.
        await sql.query('SELECT FROM customer WHERE customer_id = $1 FOR UPDATE', [customerId])
        if ((await countKeysInUse(sql, customerId)) >= KEYS_MAX) {
          throw new ApiError('invalid_value', {
            message: `There are ${KEYS_MAX} keys already, which is the most a customer may have. Delete one first.`,
          })
        }
        const issued = await issueKey(sql, order)
        return { ...issued, listing: (await findKeyInUse(sql, customerId, issued.keyId))! }
      }).catch(refuse),
    revoke: (customerId, keyId) =>
      transaction(pool, async sql => {
        const key = await findKeyInUse(sql, customerId, keyId)
        if (key === undefined || !(await revokeKey(sql, keyId)))
          throw new ApiError('not_found', { message: noSuchKey(keyId) })
      }).catch(refuse),
  }
}

function noSuchKey(keyId: string): string {
  const id = keyId.length > 40 ? `${keyId.slice(0, 40)}...` : keyId
  return `There is no key ${JSON.stringify(id)}. GET /v1/keys lists the keys.`
}

function refuse(thrown: unknown): never {
  if (thrown instanceof ApiError) throw thrown
  throw new ApiError('database_unavailable', { internal: thrown })
}
