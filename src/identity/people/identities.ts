import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { requireFactorInUse } from './factors.ts'
import { requireOtherWayIn } from './other-way-in.ts'
import type { SecurityNotices } from './security-notices.ts'
import { type ClientTrace, lockSession, type OpenedSession, renewSession, type SignedIn } from './sessions.ts'

/** A person as another service knows them. */
export interface Identity {
  readonly issuer: string
  readonly subject: string
  readonly provider: string
  readonly email: string | null
}

export interface ListedIdentity {
  readonly identityId: string
  readonly provider: string
  readonly email: string | null
  readonly createdAt: Date
  readonly lastUsedAt: Date
}

/** The services that a person can sign in with. */
export interface Identities {
  list(personId: string): Promise<ListedIdentity[]>
  /**
   * Ends the other sessions: see `renewSession`. Rejects with `second_factor_required`, `not_found` or `last_way_in`.
   */
  unlink(signedIn: SignedIn, identityId: string, client: ClientTrace): Promise<OpenedSession>
}

export function createIdentities({
  pool,
  clock,
  notices,
}: {
  pool: Pool
  clock: Clock
  notices: SecurityNotices
}): Identities {
  return {
    list: personId => listIdentities(pool, personId).catch(refuseOutage),
    async unlink(signedIn, identityId, { address }) {
      const opened = await transaction(pool, async sql => {
        await lockSession(sql, signedIn)
        requireFactorInUse(signedIn)
        const { personId, email: subject } = signedIn.person
        await requireOtherWayIn(sql, personId, { identities: 1 })
        const { rows } = await sql.query<{ provider: string }>(
          'DELETE FROM person_identity WHERE person_id = $1 AND identity_id = $2 RETURNING provider',
          [personId, identityId],
        )
        if (rows[0] === undefined) {
          throw new ApiError('not_found', { message: sayRefusal('refusal.service_not_linked') })
        }
        await noteAction(sql, { action: 'identity.removed', personId, subject, detail: { ...rows[0] }, address })
        return renewSession(sql, signedIn, clock.epochMs())
      }).catch(refuseOutage)
      notices.send(signedIn.person.email, 'service_unlinked')
      return opened
    },
  }
}

/** Returns the id of the person that an identity belongs to, and notes that it was used. */
export async function usePersonOf(
  sql: Sql,
  { issuer, subject, email }: Identity,
  nowMs: number,
): Promise<string | undefined> {
  const { rows } = await sql.query<{ personId: string }>(
    `UPDATE person_identity SET last_used_at = $3, email = $4 WHERE issuer = $1 AND subject = $2
     RETURNING person_id AS "personId"`,
    [issuer, subject, new Date(nowMs), email],
  )
  return rows[0]?.personId
}

/**
 * Links an identity to a person. Returns whether it was not linked before. Rejects with `identity_in_use` if it belongs
 * to another person.
 */
export async function linkIdentity(
  sql: Sql,
  person: { personId: string; email: string },
  { issuer, subject, provider, email }: Identity,
  { address, nowMs }: { address: string; nowMs: number },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `INSERT INTO person_identity (issuer, subject, person_id, provider, email, created_at, last_used_at)
     VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (issuer, subject) DO NOTHING`,
    [issuer, subject, person.personId, provider, email, new Date(nowMs)],
  )
  if (rowCount === 0) {
    const owner = await usePersonOf(sql, { issuer, subject, provider, email }, nowMs)
    if (owner !== person.personId) throw new ApiError('identity_in_use')
    return false
  }
  const detail = { provider, email }
  await noteAction(sql, {
    action: 'identity.linked',
    personId: person.personId,
    subject: person.email,
    detail,
    address,
  })
  return true
}

/** Unlinks all services of a person. */
export async function unlinkAll(sql: Sql, personId: string): Promise<void> {
  await sql.query('DELETE FROM person_identity WHERE person_id = $1', [personId])
}

async function listIdentities(sql: Sql, personId: string): Promise<ListedIdentity[]> {
  const { rows } = await sql.query<ListedIdentity>(
    `SELECT identity_id AS "identityId", provider, email, created_at AS "createdAt", last_used_at AS "lastUsedAt"
       FROM person_identity WHERE person_id = $1 ORDER BY created_at, identity_id`,
    [personId],
  )
  return rows
}
