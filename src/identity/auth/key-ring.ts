import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { ApiError } from '../../base/domain/errors.ts'
import {
  changeKey,
  countKeysInUse,
  findKeyInUse,
  findKeyItself,
  type IssuedKey,
  issueKey,
  type KeyChange,
  type KeyListing,
  listKeysInUse,
  type NewKey,
  revokeKey,
  rotateKey,
} from './keys.ts'
import { noteKeyChanged, noteKeyIssued, noteKeyRevoked, noteKeyRotated } from './note-key.ts'

/**
 * Manages the keys of one customer at a time; keys of other customers are not found. Each change is in the audit log,
 * in the same transaction. Rejects with `database_unavailable` when PostgreSQL cannot be reached.
 */
export interface KeyRing {
  /** Returns the keys that are not revoked, newest first. */
  list(customerId: string): Promise<KeyListing[]>
  /** Rejects with `invalid_value` when the customer already has KEYS_MAX keys; with `invalid_api_key` when the key that makes it was revoked; with
   * `not_signed_in` when the person that makes it has left or signed out. */
  issue(order: NewKey, by: Acting): Promise<IssuedKey & { readonly listing: KeyListing }>
  /**
   * Like `issue`, with an order that depends on other keys: `orderOf` runs in the same transaction, one call at a time.
   */
  issueFor(
    customerId: string,
    by: Acting,
    orderOf: (sql: Sql) => Promise<NewKey>,
  ): Promise<IssuedKey & { readonly listing: KeyListing }>
  /** Changes a key. Rejects with `not_found` when `list` does not contain it. */
  change(customerId: string, keyId: string, by: Acting, changeOf: (key: KeyListing) => KeyChange): Promise<KeyListing>
  /**
   * Replaces a key: the former one works until `formerUntil`. Rejects with `not_found` when `list` does not contain it, and
   * like `issue` when the maker has left.
   */
  rotate(order: KeyRotation, by: Acting): Promise<IssuedKey & { readonly listing: KeyListing }>
  /** Finds a key of the customer by itself. Rejects with `not_found`, for keys of others and deleted ones too. */
  findItself(customerId: string, key: string): Promise<KeyListing>
  /** Revokes a key on all nodes within two seconds. Rejects with `not_found` when `list` does not contain it. */
  revoke(customerId: string, keyId: string, by: Acting): Promise<void>
}

/** Which key to replace, and who does it, as in `NewKey`. */
export interface KeyRotation extends Pick<NewKey, 'customerId' | 'personId' | 'makerId'> {
  readonly keyId: string
  /** Null: the former key stops at once. */
  readonly formerUntil: Date | null
  /** Throws if the key must not be replaced. */
  readonly check?: (key: KeyListing) => void
}

/**
 * The most keys a customer may have, so that the whole list can be read at once. Revoked keys do not count and are
 * not read: there may be any number.
 */
export const KEYS_MAX = 1_000

export function createKeyRing(pool: Pool): KeyRing {
  const issueFor: KeyRing['issueFor'] = (customerId, by, orderOf) =>
    transaction(pool, sql => issueNoted(sql, customerId, by, orderOf)).catch(refuseOutage)

  return {
    list: customerId => listKeysInUse(pool, customerId).catch(refuseOutage),
    issue: (order, by) => issueFor(order.customerId, by, async () => order),
    issueFor,
    change: (customerId, keyId, by, changeOf) =>
      transaction(pool, async sql => {
        const key = await findKeyInUse(sql, customerId, keyId)
        const changed = key && (await changeKey(sql, key.keyId, changeOf(key)))
        if (key === undefined || changed === undefined) throw new ApiError('not_found', { message: noSuchKey(keyId) })
        await noteKeyChanged(sql, by, key, changed)
        return changed
      }).catch(refuseOutage),
    rotate: (order, by) =>
      transaction(pool, async sql => {
        const { customerId, keyId, formerUntil } = order
        await requireMaker(sql, order)
        const key = await findKeyInUse(sql, customerId, keyId)
        if (key !== undefined) order.check?.(key)
        const rotated = key && (await rotateKey(sql, key.keyId, formerUntil))
        if (key === undefined || rotated === undefined) throw new ApiError('not_found', { message: noSuchKey(keyId) })
        await noteKeyRotated(sql, by, key, rotated.listing)
        return rotated
      }).catch(refuseOutage),
    async findItself(customerId, key) {
      const found = await findKeyItself(pool, key, customerId).catch(refuseOutage)
      if (found !== undefined && found.revokedAt === null) return found
      throw new ApiError('not_found', { message: 'No key of this customer that is in use is this one.' })
    },
    revoke: (customerId, keyId, by) =>
      transaction(pool, async sql => {
        const key = await findKeyInUse(sql, customerId, keyId)
        if (key === undefined || !(await revokeKey(sql, keyId)))
          throw new ApiError('not_found', { message: noSuchKey(keyId) })
        await noteKeyRevoked(sql, by, key)
      }).catch(refuseOutage),
  }
}

/** As `KeyRing.issueFor`, in the transaction of the caller. */
export async function issueNoted(
  sql: Sql,
  customerId: string,
  by: Acting,
  orderOf: (sql: Sql) => Promise<NewKey>,
): Promise<IssuedKey & { readonly listing: KeyListing }> {
  // Lock the customer, so that concurrent calls cannot exceed the limit.
  await sql.query('SELECT FROM customer WHERE customer_id = $1 FOR UPDATE', [customerId])
  const order = await orderOf(sql)
  await requireMaker(sql, order)
  if ((await countKeysInUse(sql, customerId)) >= KEYS_MAX) {
    throw new ApiError('invalid_value', {
      message: `There are already ${KEYS_MAX} keys, the most a customer may have. Delete one first.`,
    })
  }
  const issued = await issueKey(sql, order)
  const listing = await findKeyInUse(sql, customerId, issued.keyId)
  if (listing === undefined) throw new Error('A key that was just made is not there.')
  await noteKeyIssued(sql, by, listing)
  return { ...issued, listing }
}

/**
 * Throws if the person has left the customer or the session has ended, or if the key that makes this one was revoked.
 * Nodes remember keys for two seconds, and the request may have begun before.
 */
async function requireMaker(
  sql: Sql,
  { customerId, personId = null, makerId = null }: Pick<NewKey, 'customerId' | 'personId' | 'makerId'>,
): Promise<void> {
  if (makerId === null) return
  if (personId === null) {
    const { rowCount } = await sql.query(
      'SELECT FROM api_key WHERE key_id = $1 AND customer_id = $2 AND revoked_at IS NULL',
      [makerId, customerId],
    )
    if (rowCount === 0) throw new ApiError('invalid_api_key')
    return
  }
  const { rowCount } = await sql.query(
    `SELECT FROM person_session s JOIN membership m USING (person_id)
      WHERE session_id = $1 AND m.customer_id = $2 AND person_id = $3 FOR KEY SHARE OF s`,
    [makerId, customerId, personId],
  )
  if (rowCount === 0) throw new ApiError('not_signed_in')
}

function noSuchKey(keyId: string): string {
  const id = keyId.length > 40 ? `${keyId.slice(0, 40)}...` : keyId
  return `There is no key ${JSON.stringify(id)}. GET /v1/keys lists the keys.`
}
