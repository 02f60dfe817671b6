import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { HosterScope } from '../../base/domain/hoster-access.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { noteHosterAction, type StateActor } from './change-hoster-state.ts'
import { type IssuedHosterKey, issueHosterKey, listHosterKeys, revokeHosterKey } from './hoster-keys.ts'

export interface NewKeyOrder {
  readonly name: string
  readonly scopes: readonly HosterScope[]
  readonly expiresAt: Date | null
}

const KEYS_MAX = 100

/**
 * Issues a key, with an entry in the audit log. Run it in a transaction. Throws `invalid_value` when there are too
 * many.
 */
export async function issueKeyOf(
  sql: Sql,
  hosterId: string,
  order: NewKeyOrder,
  actor: StateActor,
): Promise<IssuedHosterKey> {
  await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
  if ((await listHosterKeys(sql, hosterId)).length >= KEYS_MAX)
    throw new ApiError('invalid_value', { message: sayRefusal('refusal.too_many_hoster_keys', { count: KEYS_MAX }) })
  const isOperator = actor.actor === 'operator'
  if (!isOperator) await requireMaker(sql, hosterId, actor)
  const personId = isOperator ? null : actor.personId
  const issued = await issueHosterKey(sql, { ...order, hosterId, personId, makerKeyId: actor.keyId })
  const { keyId, name, scopes } = issued
  await noteHosterAction(sql, actor, hosterId, {
    action: 'hoster.key_issued',
    detail: { key_id: keyId, key: name, scopes },
  })
  return issued
}

/**
 * Throws if the person has left the hoster, or if the key that makes this one was revoked: nodes remember keys for two
 * seconds.
 */
async function requireMaker(sql: Sql, hosterId: string, { personId, keyId }: StateActor): Promise<void> {
  const { rowCount } = await sql.query(
    `SELECT FROM hoster_member WHERE hoster_id = $1 AND person_id = $2
     UNION ALL SELECT FROM hoster_key WHERE hoster_id = $1 AND key_id = $3 AND revoked_at IS NULL`,
    [hosterId, personId, keyId],
  )
  if (rowCount === 0) throw new ApiError(keyId === null ? 'hoster_not_found' : 'invalid_hoster_key')
}

/** Revokes a key, an id or a hint, with an entry in the audit log. Run it in a transaction. Throws `not_found`. */
export async function revokeKeyOf(
  sql: Sql,
  hosterId: string,
  key: string,
  actor: StateActor,
): Promise<{ keyId: string; name: string }> {
  const revoked = await revokeHosterKey(sql, hosterId, key)
  if (revoked === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_hoster_key') })
  const { keyId, name } = revoked
  await noteHosterAction(sql, actor, hosterId, { action: 'hoster.key_revoked', detail: { key_id: keyId, key: name } })
  return { keyId, name }
}
