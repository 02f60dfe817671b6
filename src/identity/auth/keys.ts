import { randomUUID } from 'node:crypto'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { GRACE_SECONDS, type KeyLimit, type KeyScope, type LimitReset } from '../../base/domain/caller.ts'
import type { KeyDefaults } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { EndedKeys } from '../../base/domain/member-role.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { hashApiKey, hintOf, mintApiKey } from './api-key.ts'
import type { PastedKey } from './pasted-key.ts'

/** What may be shown of a key after it was issued. */
export interface KeyListing {
  readonly keyId: string
  readonly customerId: string
  readonly customerEmail: string
  /** While set, the key is refused. */
  readonly customerDisabledAt: Date | null
  readonly name: string
  readonly hint: string
  /** Null means no limit. */
  readonly limitNanos: Nanos | null
  readonly limitReset: LimitReset
  /** Null allows every model. */
  readonly allowedModels: readonly string[] | null
  readonly scopes: readonly KeyScope[]
  /** The label of requests that name none; null for none. */
  readonly label: string | null
  /** Null means none. */
  readonly defaults: KeyDefaults | null
  /** Prompts and answers are recorded, where the operator allows it. */
  readonly recordsContent: boolean
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  /** While set, the key is refused. */
  readonly pausedAt: Date | null
  /** Only an operator ends this pause. */
  readonly isPausedByOperator: boolean
  /** The hint of the key that this one has replaced, while that still works; null otherwise. */
  readonly formerHint: string | null
  readonly formerExpiresAt: Date | null
  /** Made by the console for its playground. */
  readonly isPlayground: boolean
  /** E-mail address of the person who made the key in the console, or replaced it last; null for other keys. */
  readonly madeBy: string | null
}

/** A key to create. Omitted fields mean no limit. */
export interface NewKey {
  readonly customerId: string
  readonly name: string
  readonly limit?: KeyLimit | null
  readonly allowedModels?: readonly string[] | null
  readonly scopes?: readonly KeyScope[]
  readonly defaults?: KeyDefaults | null
  readonly expiresAt?: Date | null
  readonly label?: string | null
  readonly recordsContent?: boolean
  readonly isPlayground?: boolean
  /** The person who makes the key in the console. */
  readonly personId?: string | null
  /**
   * The key that makes this key, or the session of `personId`. The person who made that key counts as the maker, so
   * that a key with the scope `manage` is no way around the spend limit of its member.
   */
  readonly makerId?: string | null
}

export interface IssuedKey {
  readonly keyId: string
  /** The key itself. It cannot be read again. */
  readonly key: string
  readonly hint: string
}

/**
 * Creates a key for a customer. Run it in a transaction, so that the key and the change notice commit
 * together.
 */
export async function issueKey(sql: Sql, newKey: NewKey): Promise<IssuedKey> {
  const {
    customerId,
    name,
    limit = null,
    allowedModels = null,
    scopes = [],
    defaults = null,
    expiresAt = null,
  } = newKey
  const key = mintApiKey()
  const issued = { keyId: randomUUID(), key, hint: hintOf(key) }
  await sql.query(
    `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint, spend_limit_nanos, highest_limit_nanos, limit_reset, allowed_models, scopes, expires_at, routing_defaults, is_playground, label, records_content, person_id)
     VALUES ($1, $2, $3, decode($4, 'base64'), $5, $6, $6, $7, $8, $9, $10, $11, $12, $13, $14,
       coalesce($15, (SELECT person_id FROM api_key WHERE key_id = $16 AND customer_id = $2)))`,
    [
      issued.keyId,
      customerId,
      name,
      hashApiKey(key),
      issued.hint,
      limit?.limitNanos ?? null,
      limit?.reset ?? 'none',
      allowedModels,
      scopes,
      expiresAt,
      defaults === null ? null : JSON.stringify(defaults),
      newKey.isPlayground ?? false,
      newKey.label ?? null,
      newKey.recordsContent ?? false,
      newKey.personId ?? null,
      newKey.makerId ?? null,
    ],
  )
  await bumpControlVersion(sql, 'access')
  return issued
}

/**
 * Returns keys, newest first, of one customer or of all (`customerId` null). Includes revoked keys, of which
 * there may be any number.
 */
export async function listKeys(sql: Sql, customerId: string | null = null): Promise<KeyListing[]> {
  const { rows } = await sql.query<KeyListing>(
    `${SELECT} WHERE $1::uuid IS NULL OR customer_id = $1 ORDER BY api_key.created_at DESC, key_id`,
    [customerId],
  )
  return rows
}

/** Returns the keys of a customer that are not revoked, newest first. */
export async function listKeysInUse(sql: Sql, customerId: string): Promise<KeyListing[]> {
  const { rows } = await sql.query<KeyListing>(
    `${SELECT} WHERE customer_id = $1 AND revoked_at IS NULL ORDER BY api_key.created_at DESC, key_id`,
    [customerId],
  )
  return rows
}

/** A key in a list of names. */
export type KeyName = Pick<KeyListing, 'keyId' | 'name' | 'hint' | 'isPlayground'>

/** Returns the names of the keys of a customer that are not revoked, newest first, without reading what they spent. */
export async function listKeyNames(sql: Sql, customerId: string): Promise<KeyName[]> {
  const { rows } = await sql.query<KeyName>(
    `SELECT key_id AS "keyId", name, hint, is_playground AS "isPlayground" FROM api_key
      WHERE customer_id = $1 AND revoked_at IS NULL ORDER BY created_at DESC, key_id`,
    [customerId],
  )
  return rows
}

/** A key in the list of those that a member made. */
export type MadeKey = Pick<KeyListing, 'keyId' | 'name' | 'hint' | 'scopes' | 'createdAt'>

/** Returns the keys in use that a member made, newest first. Those of the playground end by themselves. */
export async function listKeysOfMember(sql: Sql, customerId: string, personId: string): Promise<MadeKey[]> {
  const { rows } = await sql.query<MadeKey>(
    `SELECT key_id AS "keyId", name, hint, scopes, created_at AS "createdAt" FROM api_key
      WHERE customer_id = $1 AND person_id = $2 AND revoked_at IS NULL AND NOT is_playground ORDER BY created_at DESC, key_id`,
    [customerId, personId],
  )
  return rows
}

/** Counts the keys that `listKeysInUse` would return. */
export async function countKeysInUse(sql: Sql, customerId: string): Promise<bigint> {
  const { count } = await queryRow<{ count: bigint }>(
    sql,
    'SELECT count(*) FROM api_key WHERE customer_id = $1 AND revoked_at IS NULL',
    [customerId],
  )
  return count
}

/** Finds a key of a customer that is not revoked. `keyId` may be any text. */
export async function findKeyInUse(sql: Sql, customerId: string, keyId: string): Promise<KeyListing | undefined> {
  if (!UUID.test(keyId)) return undefined
  const { rows } = await sql.query<KeyListing>(
    `${SELECT} WHERE key_id = $1 AND customer_id = $2 AND revoked_at IS NULL`,
    [keyId, customerId],
  )
  return rows[0]
}

/** Finds keys by id, by hint or by the key itself, also one that was replaced and still works. Several keys may share a hint. */
export async function findKeys(sql: Sql, text: string): Promise<KeyListing[]> {
  const { rows } = await sql.query<KeyListing>(
    `${SELECT} WHERE key_id::text = lower($1) OR hint = $1 OR key_hash = decode($2, 'base64')
        OR (former_key_hash = decode($2, 'base64') AND former_expires_at > now())
      ORDER BY api_key.created_at, key_id`,
    [text, hashApiKey(text)],
  )
  return rows
}

/** The key that a text is. */
export interface FoundByItself extends KeyListing {
  /** The text is the former key, which the key of the listing has replaced. */
  readonly isFormer: boolean
}

/**
 * Finds a key by itself, or by the part of it that lists show: revoked ones too, and a replaced one while it still works, of one
 * customer or of all (`customerId` null). Of a key itself only the hash reaches the database. Rejects with `invalid_value` if
 * several keys have the shown part.
 */
export async function findKeyItself(
  sql: Sql,
  pasted: PastedKey,
  customerId: string | null,
): Promise<FoundByItself | undefined> {
  const hash = pasted.key === null ? null : hashApiKey(pasted.key)
  const hint = pasted.key === null ? pasted.hint : null
  const { rows } = await sql.query<FoundByItself>(
    `SELECT ${COLUMNS}, coalesce(former_key_hash = decode($1, 'base64') OR former_hint = $2, false) AS "isFormer" FROM ${TABLES}
      WHERE (key_hash = decode($1, 'base64') OR hint = $2
             OR ((former_key_hash = decode($1, 'base64') OR former_hint = $2) AND former_expires_at > now()))
        AND ($3::uuid IS NULL OR customer_id = $3) LIMIT 2`,
    [hash, hint, customerId],
  )
  if (rows.length > 1)
    throw new ApiError('invalid_value', { param: 'key', message: sayRefusal('refusal.keys_look_alike') })
  return rows[0]
}

const COLUMNS = `key_id AS "keyId", customer_id AS "customerId", customer.email AS "customerEmail", customer.disabled_at AS "customerDisabledAt", api_key.name, hint, spend_limit_nanos AS "limitNanos",
         limit_reset AS "limitReset", allowed_models AS "allowedModels", scopes, api_key.label, routing_defaults AS defaults, records_content AS "recordsContent",
         api_key.created_at AS "createdAt", expires_at AS "expiresAt", revoked_at AS "revokedAt",
         is_playground AS "isPlayground", person.email AS "madeBy", paused_at AS "pausedAt", paused_by_operator AS "isPausedByOperator",
         CASE WHEN former_expires_at > now() THEN former_hint END AS "formerHint",
         CASE WHEN former_expires_at > now() THEN former_expires_at END AS "formerExpiresAt"`
const TABLES = 'api_key JOIN customer USING (customer_id) LEFT JOIN person USING (person_id)'
const SELECT = `SELECT ${COLUMNS} FROM ${TABLES}`

/** Changes to a key. Omitted fields stay as they are. */
export interface KeyChange {
  readonly name?: string | undefined
  /** Null removes the limit. */
  readonly limit?: KeyLimit | null | undefined
  readonly allowedModels?: readonly string[] | null | undefined
  readonly scopes?: readonly KeyScope[] | undefined
  /** Null removes it. */
  readonly label?: string | null | undefined
  /** Null removes them. */
  readonly defaults?: KeyDefaults | null | undefined
  readonly recordsContent?: boolean | undefined
  readonly expiresAt?: Date | null | undefined
  /** True ends the former key, too: no key that was stopped works again when this one is resumed. */
  readonly isPaused?: boolean | undefined
  /** Null ends the former key. */
  readonly formerKey?: null | undefined
  /** An operator pauses or resumes the key. Others cannot end an operator's pause. */
  readonly byOperator?: boolean
}

/**
 * Changes a key that is not revoked; every node sees the change within two seconds. Run it in a transaction.
 * Returns the key as it is now; undefined when it is revoked or does not exist. Rejects with `key_paused` if only an operator may
 * resume it.
 */
export async function changeKey(sql: Sql, keyId: string, change: KeyChange): Promise<KeyListing | undefined> {
  if (change.limit != null) await countWindow(sql, keyId, change.limit.reset)
  const { rows } = await sql.query<KeyListing>(
    `${SELECT} WHERE key_id = $1 AND revoked_at IS NULL FOR UPDATE OF api_key`,
    [keyId],
  )
  const [key] = rows
  if (!key) return undefined
  const { limitNanos, limitReset } =
    change.limit === undefined
      ? key
      : { limitNanos: change.limit?.limitNanos ?? null, limitReset: change.limit?.reset ?? ('none' as const) }
  const endsFormer = change.formerKey === null || change.isPaused === true
  if (endsFormer) await sql.query(`UPDATE api_key SET ${NO_FORMER} WHERE key_id = $1`, [keyId])
  const changed = {
    ...key,
    ...(endsFormer && { formerHint: null, formerExpiresAt: null }),
    name: change.name ?? key.name,
    limitNanos,
    limitReset,
    allowedModels: change.allowedModels === undefined ? key.allowedModels : change.allowedModels,
    scopes: change.scopes ?? key.scopes,
    label: change.label === undefined ? key.label : change.label,
    defaults: change.defaults === undefined ? key.defaults : change.defaults,
    expiresAt: change.expiresAt === undefined ? key.expiresAt : change.expiresAt,
    recordsContent: change.recordsContent ?? key.recordsContent,
    ...pauseAfter(key, change),
  }
  await sql.query(
    `UPDATE api_key SET name = $2, spend_limit_nanos = $3, highest_limit_nanos = greatest(highest_limit_nanos, $3), limit_reset = $4,
       allowed_models = $5, scopes = $6, expires_at = $7, routing_defaults = $8, label = $9, paused_at = $10, paused_by_operator = $11,
       records_content = $12
     WHERE key_id = $1`,
    [
      keyId,
      changed.name,
      limitNanos,
      limitReset,
      changed.allowedModels,
      changed.scopes,
      changed.expiresAt,
      changed.defaults === null ? null : JSON.stringify(changed.defaults),
      changed.label,
      changed.pausedAt,
      changed.isPausedByOperator,
      changed.recordsContent,
    ],
  )
  await bumpControlVersion(sql, 'access')
  return changed
}

function pauseAfter(
  { pausedAt, isPausedByOperator }: KeyListing,
  { isPaused, byOperator = false }: KeyChange,
): Pick<KeyListing, 'pausedAt' | 'isPausedByOperator'> {
  if (isPaused === undefined) return { pausedAt, isPausedByOperator }
  if (isPaused) return { pausedAt: pausedAt ?? new Date(), isPausedByOperator: isPausedByOperator || byOperator }
  if (!isPausedByOperator || byOperator) return { pausedAt: null, isPausedByOperator: false }
  throw new ApiError('key_paused', { message: 'An operator has paused this API key. Only an operator can resume it.' })
}

/**
 * A limit that is new, or resets at other times, counts what its window has spent before. The balance is locked before the
 * key, as by all functions that move money.
 */
async function countWindow(sql: Sql, keyId: string, reset: LimitReset): Promise<void> {
  await sql.query(
    `SELECT count_key_window(customer_id, key_id, $2, now()) FROM api_key
      WHERE key_id = $1 AND (spend_limit_nanos IS NULL OR limit_reset <> $2)`,
    [keyId, reset],
  )
}

/** How to replace a key. */
export interface Rotation extends Pick<NewKey, 'personId' | 'makerId'> {
  /** How long the former key works; null for the default: a day, and no time for a key that is paused. */
  readonly graceSeconds: number | null
}

/**
 * Replaces a key that is not revoked. The former one works until its grace ends; one before that stops at once. Limits,
 * spend and history stay: it is the same row. The person that replaces it counts as its maker, as in `NewKey`, since that person
 * gets the new key; if there is none, the maker stays. A key that is paused was stopped, often because it leaked: it ends for
 * good, and the new one works, unless an operator has paused it. Run it in a transaction, and lock the customer first if a person
 * gets the key. Returns the new key and its listing; undefined when it is revoked or does not exist. Rejects with `invalid_value`
 * for a grace of a paused key.
 */
export async function rotateKey(
  sql: Sql,
  keyId: string,
  { graceSeconds, personId = null, makerId = null }: Rotation,
): Promise<(IssuedKey & { readonly listing: KeyListing }) | undefined> {
  const { rows: locked } = await sql.query<{ isPaused: boolean }>(
    'SELECT paused_at IS NOT NULL AS "isPaused" FROM api_key WHERE key_id = $1 AND revoked_at IS NULL FOR UPDATE',
    [keyId],
  )
  if (locked[0] === undefined) return undefined
  const { isPaused } = locked[0]
  if (isPaused && graceSeconds !== null && graceSeconds > 0)
    throw new ApiError('invalid_value', {
      param: 'grace_seconds',
      message: sayRefusal('refusal.no_grace_while_paused'),
    })
  const grace = graceSeconds ?? (isPaused ? 0 : GRACE_SECONDS)
  const key = mintApiKey()
  const hint = hintOf(key)
  await sql.query(
    `UPDATE api_key k SET key_hash = decode($2, 'base64'), hint = $3,
       former_key_hash = CASE WHEN $4 > 0 THEN key_hash END,
       former_hint = CASE WHEN $4 > 0 THEN hint END,
       former_expires_at = CASE WHEN $4 > 0 THEN now() + make_interval(secs => $4) END,
       former_person_id = CASE WHEN $4 > 0 THEN person_id END,
       paused_at = CASE WHEN paused_by_operator THEN paused_at END,
       person_id = coalesce($5, (SELECT m.person_id FROM api_key m WHERE m.key_id = $6 AND m.customer_id = k.customer_id), person_id)
     WHERE key_id = $1`,
    [keyId, hashApiKey(key), hint, grace, personId, makerId],
  )
  await bumpControlVersion(sql, 'access')
  const { rows } = await sql.query<KeyListing>(`${SELECT} WHERE key_id = $1`, [keyId])
  return { keyId, key, hint, listing: rows[0]! }
}

/** Revokes all keys of a customer for good. Run it in a transaction. Returns how many keys there were. */
export async function revokeAllKeys(sql: Sql, customerId: string): Promise<number> {
  const { rowCount } = await sql.query(
    'UPDATE api_key SET revoked_at = now() WHERE customer_id = $1 AND revoked_at IS NULL',
    [customerId],
  )
  await bumpControlVersion(sql, 'access')
  return rowCount ?? 0
}

/** Ends a former key. */
const NO_FORMER = 'former_key_hash = NULL, former_hint = NULL, former_expires_at = NULL, former_person_id = NULL'

/**
 * Ends the keys that a member made or replaced in the console, or with a key that the member made: revokes them, or gives them to
 * another member, `heirId`. A former key that the member knows ends likewise, while the key that replaced it stays. Those with the
 * scope `manage` and those of the playground are always revoked, since their maker knows them. As `revokeAllKeys`. Lock the
 * customer first, as `KeyRing` does.
 */
export async function endKeysOfMember(
  sql: Sql,
  { customerId, personId, heirId }: { customerId: string; personId: string; heirId: string | null },
): Promise<EndedKeys> {
  await sql.query(
    `UPDATE api_key SET ${NO_FORMER} WHERE customer_id = $1 AND former_person_id = $2
        AND ($3::uuid IS NULL OR 'manage' = ANY (scopes) OR is_playground)`,
    [customerId, personId, heirId],
  )
  await sql.query('UPDATE api_key SET former_person_id = $3 WHERE customer_id = $1 AND former_person_id = $2', [
    customerId,
    personId,
    heirId,
  ])
  const ended = await queryRow<EndedKeys>(
    sql,
    `WITH ended AS (
       UPDATE api_key SET revoked_at = now()
        WHERE customer_id = $1 AND person_id = $2 AND revoked_at IS NULL
          AND ($3::uuid IS NULL OR 'manage' = ANY (scopes) OR is_playground) RETURNING key_id),
     given AS (
       UPDATE api_key SET person_id = $3
        WHERE customer_id = $1 AND person_id = $2 AND revoked_at IS NULL AND $3::uuid IS NOT NULL
          AND 'manage' <> ALL (scopes) AND NOT is_playground RETURNING key_id)
     SELECT (SELECT count(*)::int FROM ended) AS revoked, (SELECT count(*)::int FROM given) AS "handedOver"`,
    [customerId, personId, heirId],
  )
  await bumpControlVersion(sql, 'access')
  return ended
}

/** Revokes all keys that a person made or replaced in the console, or with a key that the person made, and former keys. As `revokeAllKeys`. */
export async function revokeKeysOfPerson(sql: Sql, personId: string): Promise<number> {
  await sql.query(`UPDATE api_key SET ${NO_FORMER} WHERE former_person_id = $1`, [personId])
  const { rowCount } = await sql.query(
    'UPDATE api_key SET revoked_at = now() WHERE person_id = $1 AND revoked_at IS NULL',
    [personId],
  )
  await bumpControlVersion(sql, 'access')
  return rowCount ?? 0
}

/**
 * Revokes a key for good; every node refuses it within two seconds. Run it in a transaction.
 * Returns false when the key was already revoked or does not exist.
 */
export async function revokeKey(sql: Sql, keyId: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    'UPDATE api_key SET revoked_at = now() WHERE key_id = $1 AND revoked_at IS NULL',
    [keyId],
  )
  if (rowCount === 0) return false
  await bumpControlVersion(sql, 'access')
  return true
}
