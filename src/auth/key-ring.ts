import { type Pool, transaction } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import { type IssuedKey, issueKey, type KeyListing, type KeyOrder, listKeys, revokeKey } from './keys.ts'

/** The keys of one customer each: those of anybody else do not exist for it. Everything rejects with `database_unavailable` without one. */
export interface KeyRing {
  /** Those not revoked, newest first. */
  list(customerId: string): Promise<KeyListing[]>
  /** Rejects with `invalid_value` when the customer has KEYS_MAX already. */
  issue(order: KeyOrder): Promise<IssuedKey & { readonly listing: KeyListing }>
  /** Shuts a key off on all nodes within two seconds. Rejects with `not_found` when `list` would not show it: it is another's, or was revoked. */
  revoke(customerId: string, keyId: string): Promise<void>
}

/** Per customer and not revoked: a list that can be read and shown in one go. */
export const KEYS_MAX = 1_000

export function createKeyRing(pool: Pool): KeyRing {
  return {
    list: customerId => listKeys(pool, customerId).then(keys => keys.filter(isInUse), refuse),
    issue: order =>
      transaction(pool, async sql => {
        const { customerId } = order
        // One at a time, so that the count holds.
        await sql.query('SELECT FROM customer WHERE customer_id = $1 FOR UPDATE', [customerId])
        const inUse = (await listKeys(sql, customerId)).filter(isInUse)
        if (inUse.length >= KEYS_MAX) {
          throw new ApiError('invalid_value', {
            message: `There are ${KEYS_MAX} keys already, which is the most a customer may have. Delete one first.`,
          })
        }
        const issued = await issueKey(sql, order)
        const listing = (await listKeys(sql, customerId)).find(key => key.keyId === issued.keyId)!
        return { ...issued, listing }
      }).catch(refuse),
    revoke: (customerId, keyId) =>
      transaction(pool, async sql => {
        const keys = await listKeys(sql, customerId)
        const isMine = keys.some(key => key.keyId === keyId)
        if (!isMine || !(await revokeKey(sql, keyId))) throw new ApiError('not_found', { message: noSuchKey(keyId) })
      }).catch(refuse),
  }
}

const isInUse = ({ revokedAt }: KeyListing) => revokedAt === null

function noSuchKey(keyId: string): string {
  const id = keyId.length > 40 ? `${keyId.slice(0, 40)}...` : keyId
  return `There is no key ${JSON.stringify(id)}. GET /v1/keys lists the keys.`
}

function refuse(thrown: unknown): never {
  if (thrown instanceof ApiError) throw thrown
  throw new ApiError('database_unavailable', { internal: thrown })
}
