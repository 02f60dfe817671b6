import { randomUUID } from 'node:crypto'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { HosterScope } from '../../base/domain/hoster-access.ts'
import type { EndedKeys } from '../../base/domain/member-role.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { hashApiKey, hintOf, mintApiKey } from '../../identity/auth/api-key.ts'

/** What may be shown of a hoster's key after it was issued. */
export interface HosterKeyListing {
  readonly keyId: string
  readonly name: string
  readonly hint: string
  readonly scopes: readonly HosterScope[]
  readonly createdAt: Date
  readonly expiresAt: Date | null
}

export interface NewHosterKey {
  readonly hosterId: string
  readonly name: string
  readonly scopes: readonly HosterScope[]
  readonly expiresAt?: Date | null
  /** The person who makes the key in the console. */
  readonly personId?: string | null
  /** The key that makes this key: its person counts as the maker. */
  readonly makerKeyId?: string | null
}

export interface IssuedHosterKey extends HosterKeyListing {
  /** The key itself. It cannot be read again. */
  readonly key: string
}

const COLUMNS = `key_id AS "keyId", name, hint, scopes, created_at AS "createdAt", expires_at AS "expiresAt"`

/** Creates a key of a hoster. Run it in a transaction, so that the key and the change notice commit together. */
export async function issueHosterKey(sql: Sql, newKey: NewHosterKey): Promise<IssuedHosterKey> {
  const key = mintApiKey('hk-sy-')
  const listing = await queryRow<HosterKeyListing>(
    sql,
    `INSERT INTO hoster_key (key_id, hoster_id, name, key_hash, hint, scopes, expires_at, person_id)
     VALUES ($1, $2, $3, decode($4, 'base64'), $5, $6, $7,
       coalesce($8, (SELECT person_id FROM hoster_key WHERE key_id = $9 AND hoster_id = $2))) RETURNING ${COLUMNS}`,
    [
      randomUUID(),
      newKey.hosterId,
      newKey.name,
      hashApiKey(key),
      hintOf(key),
      newKey.scopes,
      newKey.expiresAt ?? null,
      newKey.personId ?? null,
      newKey.makerKeyId ?? null,
    ],
  )
  await bumpControlVersion(sql, 'access')
  return { ...listing, key }
}

/** @public Returns the keys of a hoster that are not revoked, newest first. */
export async function listHosterKeys(sql: Sql, hosterId: string): Promise<HosterKeyListing[]> {
  const { rows } = await sql.query<HosterKeyListing>(
    `SELECT ${COLUMNS} FROM hoster_key WHERE hoster_id = $1 AND revoked_at IS NULL ORDER BY created_at DESC, key_id`,
    [hosterId],
  )
  return rows
}

/**
 * Revokes a key of a hoster for good; every node refuses it within two seconds. `key` is an id or a hint. Run it in a
 * transaction. Returns the key; undefined when the hoster has no such key in use.
 */
export async function revokeHosterKey(sql: Sql, hosterId: string, key: string): Promise<HosterKeyListing | undefined> {
  const { rows } = await sql.query<HosterKeyListing>(
    `UPDATE hoster_key SET revoked_at = now()
      WHERE hoster_id = $1 AND revoked_at IS NULL AND (key_id = $2 OR hint = $3) RETURNING ${COLUMNS}`,
    [hosterId, UUID.test(key) ? key : null, key],
  )
  if (rows[0] !== undefined) await bumpControlVersion(sql, 'access')
  return rows[0]
}

/**
 * Ends the keys that a member made: revokes them, or gives those without the scope `manage` to another member, `heirId`. As
 * `revokeHosterKey`.
 */
export async function endHosterKeysOfMember(
  sql: Sql,
  { hosterId, personId, heirId }: { hosterId: string; personId: string; heirId: string | null },
): Promise<EndedKeys> {
  const ended = await queryRow<EndedKeys>(
    sql,
    `WITH ended AS (
       UPDATE hoster_key SET revoked_at = now() WHERE hoster_id = $1 AND person_id = $2 AND revoked_at IS NULL
          AND ($3::uuid IS NULL OR 'manage' = ANY (scopes)) RETURNING key_id),
     given AS (
       UPDATE hoster_key SET person_id = $3 WHERE hoster_id = $1 AND person_id = $2 AND revoked_at IS NULL
          AND $3::uuid IS NOT NULL AND 'manage' <> ALL (scopes) RETURNING key_id)
     SELECT (SELECT count(*)::int FROM ended) AS revoked, (SELECT count(*)::int FROM given) AS "handedOver"`,
    [hosterId, personId, heirId],
  )
  await bumpControlVersion(sql, 'access')
  return ended
}

/** Revokes the keys that a person made at all hosters. As `revokeHosterKey`. Returns how many there were. */
export async function revokeHosterKeysOfPerson(sql: Sql, personId: string): Promise<number> {
  const { rowCount } = await sql.query(
    'UPDATE hoster_key SET revoked_at = now() WHERE person_id = $1 AND revoked_at IS NULL',
    [personId],
  )
  await bumpControlVersion(sql, 'access')
  return rowCount ?? 0
}
