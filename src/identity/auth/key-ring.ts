import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import {
  changeKey,
  countKeysInUse,
  type FoundByItself,
  findKeyInUse,
  findKeyItself,
  type IssuedKey,
  issueKey,
  type KeyChange,
  type KeyListing,
  listKeysInUse,
  type NewKey,
  type Rotation,
  revokeKey,
  rotateKey,
} from './keys.ts'
import { noteKeyChanged, noteKeyIssued, noteKeyRevoked, noteKeyRotated } from './note-key.ts'
import { readPastedKey } from './pasted-key.ts'

/**
 * Who changes keys. A key names its secret, because a former key of the same id may no longer change any.
 *
 * `keyHash`: SHA-256, base64
 */
export type KeyActing = Acting & ({ readonly keyId: null } | { readonly keyId: string; readonly keyHash: string })

/**
 * Manages the keys of one customer at a time; keys of other customers are not found. Each change is in the audit log,
 * in the same transaction. Nodes remember keys for two seconds, so a key that makes a change is read again in the transaction:
 * rejects with `invalid_api_key`, `key_paused` or `insufficient_scope` when it may no longer make any, and with
 * `database_unavailable` when PostgreSQL cannot be reached.
 */
export interface KeyRing {
  /** Returns the keys that are not revoked, newest first. */
  list(customerId: string): Promise<KeyListing[]>
  /** Rejects with `invalid_value` when the customer already has KEYS_MAX keys; with `not_signed_in` when the person
   * that makes it has left or signed out. */
  issue(order: NewKey, by: KeyActing): Promise<IssuedKey & { readonly listing: KeyListing }>
  /**
   * Like `issue`, with an order that depends on other keys: `orderOf` runs in the same transaction, one call at a time.
   */
  issueFor(
    customerId: string,
    by: KeyActing,
    orderOf: (sql: Sql) => Promise<NewKey>,
  ): Promise<IssuedKey & { readonly listing: KeyListing }>
  /**
   * Changes a key. Rejects with `not_found` when `list` does not contain it, and with `key_paused` when only an operator may
   * resume it.
   */
  change(
    customerId: string,
    keyId: string,
    by: KeyActing,
    changeOf: (key: KeyListing) => KeyChange,
  ): Promise<KeyListing>
  /**
   * Replaces a key. The person that does so gets the new one, and counts as its maker. The former one works, without scopes, until
   * its grace ends. Rejects with `not_found` when `list` does not contain it, with `invalid_value` for a grace of a paused key, and
   * like `issue` when the maker has left.
   */
  rotate(order: KeyRotation, by: KeyActing): Promise<IssuedKey & { readonly listing: KeyListing }>
  /**
   * Finds a key of the customer by a text that is or has the key itself or its hint. Rejects with `not_found`, for keys of others and
   * deleted ones too, and like `readPastedKey`.
   */
  findItself(customerId: string, text: string): Promise<FoundByItself>
  /** Revokes a key on all nodes within two seconds. Rejects with `not_found` when `list` does not contain it. */
  revoke(customerId: string, keyId: string, by: KeyActing): Promise<void>
}

/** Which key to replace, and who does it, as in `NewKey`. */
export interface KeyRotation extends Rotation {
  readonly customerId: string
  readonly keyId: string
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
    transaction(pool, sql =>
      issueNoted(sql, customerId, by, async () => {
        await requireKeyInUse(sql, customerId, by)
        return orderOf(sql)
      }),
    ).catch(refuseOutage)

  return {
    list: customerId => listKeysInUse(pool, customerId).catch(refuseOutage),
    issue: (order, by) => issueFor(order.customerId, by, async () => order),
    issueFor,
    change: (customerId, keyId, by, changeOf) =>
      transaction(pool, async sql => {
        await requireKeyInUse(sql, customerId, by)
        const key = await findKeyInUse(sql, customerId, keyId)
        const changed = key && (await changeKey(sql, key.keyId, changeOf(key)))
        if (key === undefined || changed === undefined) throw new ApiError('not_found', { message: noSuchKey(keyId) })
        await noteKeyChanged(sql, by, key, changed)
        return changed
      }).catch(refuseOutage),
    rotate: (order, by) =>
      transaction(pool, async sql => {
        const { customerId, keyId } = order
        await lockCustomer(sql, customerId)
        await requireKeyInUse(sql, customerId, by)
        await requireSession(sql, order)
        const key = await findKeyInUse(sql, customerId, keyId)
        if (key !== undefined) order.check?.(key)
        const rotated = key && (await rotateKey(sql, key.keyId, order))
        if (key === undefined || rotated === undefined) throw new ApiError('not_found', { message: noSuchKey(keyId) })
        await noteKeyRotated(sql, by, key, rotated.listing)
        return rotated
      }).catch(refuseOutage),
    async findItself(customerId, text) {
      const found = await findKeyItself(pool, readPastedKey(text), customerId).catch(refuseOutage)
      if (found !== undefined && found.revokedAt === null) return found
      throw new ApiError('not_found', { message: sayRefusal('refusal.not_a_key_in_use') })
    },
    revoke: (customerId, keyId, by) =>
      transaction(pool, async sql => {
        await requireKeyInUse(sql, customerId, by)
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
  await lockCustomer(sql, customerId)
  const order = await orderOf(sql)
  await requireSession(sql, order)
  if ((await countKeysInUse(sql, customerId)) >= KEYS_MAX) {
    throw new ApiError('invalid_value', {
      message: sayRefusal('refusal.too_many_keys', { count: KEYS_MAX }),
    })
  }
  const issued = await issueKey(sql, order)
  const listing = await findKeyInUse(sql, customerId, issued.keyId)
  if (listing === undefined) throw new Error('A key that was just made is not there.')
  await noteKeyIssued(sql, by, listing)
  return { ...issued, listing }
}

/** Concurrent calls cannot exceed the limit of keys, and the removal of a member sees every key that the member has got. */
async function lockCustomer(sql: Sql, customerId: string): Promise<void> {
  await sql.query('SELECT FROM customer WHERE customer_id = $1 FOR UPDATE', [customerId])
}

/**
 * Throws if a key that changes keys may no longer do so. It is locked: otherwise a key that is being paused could resume itself at
 * that moment.
 */
async function requireKeyInUse(sql: Sql, customerId: string, by: KeyActing): Promise<void> {
  if (by.keyId === null) return
  const { rows } = await sql.query<{ isPaused: boolean; mayManage: boolean }>(
    `SELECT paused_at IS NOT NULL AS "isPaused", key_hash = decode($3, 'base64') AND 'manage' = ANY (scopes) AS "mayManage" FROM api_key
      WHERE key_id = $1 AND customer_id = $2 AND decode($3, 'base64') IN (key_hash, former_key_hash)
        AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) FOR NO KEY UPDATE`,
    [by.keyId, customerId, by.keyHash],
  )
  const [key] = rows
  if (key === undefined) throw new ApiError('invalid_api_key')
  if (key.isPaused) throw new ApiError('key_paused')
  if (!key.mayManage) throw new ApiError('insufficient_scope')
}

/** Throws if the person has left the customer or the session has ended: the request may have begun before. */
async function requireSession(
  sql: Sql,
  { customerId, personId = null, makerId = null }: Pick<NewKey, 'customerId' | 'personId' | 'makerId'>,
): Promise<void> {
  if (makerId === null || personId === null) return
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
