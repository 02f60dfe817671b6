import { randomUUID } from 'node:crypto'
import { noteAction } from '../base/db/audit-log.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import { ApiError, type ErrorCode } from '../base/domain/errors.ts'
import type { InstallationRole } from '../base/domain/member-role.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { blockPerson, unblockPerson } from '../identity/people/blocks.ts'
import type { Invitations, MadeInvitation, PendingInvite } from '../identity/people/invitations.ts'
import { dropInvitedRole } from '../identity/people/invited-roles.ts'
import { findPerson, HAS_FACTOR, isBlocked } from '../identity/people/persons.ts'
import { pageOf } from '../wire/api/cursor.ts'
import type { PeoplePage, PeopleQuery, RoleChanges } from '../wire/api/operator/people.ts'
import { type Actor, act } from './operator-action.ts'

/**
 * People of the whole installation, as operators see and change them. All methods reject with ApiError, as
 * `OperatorConsole`.
 */
export interface OperatorPeople {
  list(query: PeopleQuery, after: string | null, viewerId: string): Promise<PeoplePage>
  /** Rejects with `not_found`, `has_role` for operators and auditors, or `invalid_value` for oneself. */
  block(actor: Actor, personId: string, reason: string): Promise<void>
  /** Rejects with `not_found`. */
  unblock(actor: Actor, personId: string): Promise<void>
  /**
   * Changes a role, or asks another operator to approve it. Rejects with `not_found`, `last_operator`,
   * `role_not_possible` or `invalid_value`.
   */
  setRole(actor: Actor, personId: string, role: InstallationRole | null): Promise<{ state: 'waiting' | 'done' }>
  /** The changes that wait, the newest first. */
  roleChanges(viewerId: string): Promise<RoleChanges>
  /** The open invitations of operators and auditors. */
  invites(): Promise<PendingInvite<InstallationRole>[]>
  /**
   * Invites a person to become an operator or an auditor: the link gives an account, and an operator then gives the role.
   * Rejects with `invalid_value` for people that have it, or `role_not_possible` for blocked ones.
   *
   * @param name of the operator, for the mail
   */
  invite(
    actor: Actor,
    invitation: { email: string; role: InstallationRole },
    name: string,
  ): Promise<MadeInvitation<InstallationRole>>
  /** Rejects with `not_found`. */
  revokeInvite(actor: Actor, inviteId: string): Promise<void>
  /** Takes back an invitation that was accepted and has given no role yet. Rejects with `not_found`. */
  dropInvite(actor: Actor, personId: string): Promise<void>
  /** Rejects as `setRole`, and with `role_not_allowed` for an own request. */
  decideRole(actor: Actor, changeId: string, isApproved: boolean): Promise<{ state: 'done' | 'rejected' }>
}

const INSTALLATION = { isInstallation: true } as const
/** In the mail: "Ada invites you to join the operators of a gateway as auditor". */
const INSTALLATION_NAME = 'the operators of a gateway'

/** @param desk the pool of the desk role, which reads the factors of people */
export function createOperatorPeople(desk: Pool, invitations: Invitations): OperatorPeople {
  return {
    invites: () => invitations.list(INSTALLATION),
    invite: ({ personId, address }, { email, role }, name) =>
      invitations.send({
        target: INSTALLATION,
        email,
        role,
        madeBy: { personId, name },
        check: async sql => {
          await requireWithoutRole(sql, email, role)
          return INSTALLATION_NAME
        },
        note: sql =>
          noteAction(sql, { action: 'operator.invited', personId, subject: email, detail: { role }, address }),
      }),
    revokeInvite: ({ personId, address }, inviteId) =>
      invitations.revoke(INSTALLATION, inviteId, (sql, { email, role }) =>
        noteAction(sql, { action: 'operator.invite_revoked', personId, subject: email, detail: { role }, address }),
      ),
    dropInvite: (actor, personId) =>
      act(desk, actor, async sql => {
        const dropped = await dropInvitedRole(sql, personId)
        if (dropped === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_invitation') })
        const { email, role } = dropped
        await noteAction(sql, {
          action: 'operator.invite_revoked',
          subject: email,
          detail: { role },
          ...actorOf(actor),
        })
      }),
    list: (query, after, viewerId) => listPeople(desk, query, after, viewerId).catch(refuseOutage),
    block: (actor, personId, reason) =>
      act(desk, actor, async sql => {
        await blockPerson(sql, await findWithoutRole(sql, personId), { reason, actor: actorOf(actor) })
      }),
    unblock: (actor, personId) =>
      act(desk, actor, async sql => {
        await unblockPerson(sql, await findWithoutRole(sql, personId), actorOf(actor))
      }),
    setRole: (actor, personId, role) =>
      act(desk, actor, async sql => {
        const verdict = await ask(sql, 'SELECT request_role_by_operator($1, $2, $3, $4, $5) AS verdict', [
          actor.session,
          randomUUID(),
          personId,
          role,
          actor.address,
        ])
        if (verdict === 'waiting' || verdict === 'done') return { state: verdict }
        throw refusalOf(verdict)
      }),
    roleChanges: viewerId => listRoleChanges(desk, viewerId).catch(refuseOutage),
    decideRole: (actor, changeId, isApproved) =>
      act(desk, actor, async sql => {
        const values = [actor.session, changeId, isApproved, actor.address]
        const verdict = await ask(sql, 'SELECT decide_role_by_operator($1, $2, $3, $4) AS verdict', values)
        if (verdict === 'done' || verdict === 'rejected') return { state: verdict }
        throw refusalOf(verdict)
      }),
  }
}

const refusals: Readonly<Record<string, readonly [ErrorCode, string?]>> = {
  last_operator: ['last_operator'],
  own_request: [
    'role_not_allowed',
    'You asked for this change yourself. Another operator must approve it; you can withdraw it.',
  ],
  requester_lost_role: [
    'role_not_allowed',
    'Whoever asked for this change is no operator any more. Reject it, and ask for it yourself.',
  ],
  unchanged: ['invalid_value', 'The person has this role already.'],
  blocked: ['role_not_possible', 'The person is blocked. Unblock the person first.'],
  not_verified: [
    'role_not_possible',
    'The person has not proved the e-mail address. Invite the person for this role: a mailed link proves the address, and with one that you hand over, you vouch for it for 14 days.',
  ],
  no_factor: [
    'role_not_possible',
    'The person has no second factor yet: a passkey or an authenticator app. The person adds one under “Your account”, and then you give the role.',
  ],
}

function refusalOf(verdict: string): ApiError {
  const [code, message = 'Nobody has this id, or the change was decided before. Reload the page.'] = refusals[
    verdict
  ] ?? ['not_found']
  return new ApiError(code, code === 'last_operator' ? {} : { message })
}

/** Throws `invalid_value` for a person with this role, and `role_not_possible` for a blocked one. */
async function requireWithoutRole(sql: Sql, email: string, role: InstallationRole): Promise<void> {
  const person = await findPerson(sql, email)
  if (person === undefined) return
  if (person.installationRole === role) throw refusalOf('unchanged')
  if (await isBlocked(sql, person.personId)) throw refusalOf('blocked')
}

/** Without the proof of the session, which is not for the audit log. */
function actorOf({ personId, keyId, address }: Actor) {
  return { personId, keyId, address }
}

/** Locks the person. Throws `not_found`, or `has_role` for operators and auditors. */
async function findWithoutRole(sql: Sql, personId: string): Promise<{ personId: string; email: string }> {
  const { rows } = await sql.query<{ email: string; role: InstallationRole | null }>(
    'SELECT email, installation_role AS role FROM person WHERE person_id = $1 FOR NO KEY UPDATE',
    [personId],
  )
  if (rows[0] === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_person') })
  const { email, role } = rows[0]
  if (role !== null) throw new ApiError('has_role')
  return { personId, email }
}

async function ask(sql: Sql, statement: string, values: unknown[]): Promise<string> {
  const { verdict } = await queryRow<{ verdict: string }>(sql, statement, values)
  return verdict
}

interface PersonRow {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly role: InstallationRole | null
  readonly invitedRole: InstallationRole | null
  readonly invitedBy: string | null
  readonly invitedAt: Date | null
  readonly isBlocked: boolean
  readonly isVerified: boolean
  readonly hasFactor: boolean
  readonly createdAt: Date
  readonly lastSeenAt: Date | null
  readonly customers: number
  readonly hosters: number
  readonly keys: number
}

async function listPeople(
  sql: Sql,
  { search, show, limit }: PeopleQuery,
  after: string | null,
  viewerId: string,
): Promise<PeoplePage> {
  const { rows } = await sql.query<PersonRow>(
    `SELECT p.person_id AS id, p.email, p.name, p.installation_role AS role, invited_role_of(p) AS "invitedRole", i.email AS "invitedBy",
            p.invited_at AS "invitedAt", p.disabled_at IS NOT NULL AS "isBlocked",
            p.email_verified_at IS NOT NULL AS "isVerified", p.created_at AS "createdAt",
            ${HAS_FACTOR} AS "hasFactor",
            (SELECT max(last_seen_at) FROM person_session s WHERE s.person_id = p.person_id) AS "lastSeenAt",
            (SELECT count(*)::int FROM membership m WHERE m.person_id = p.person_id) AS customers,
            (SELECT count(*)::int FROM hoster_member m WHERE m.person_id = p.person_id) AS hosters,
            (SELECT count(*)::int FROM api_key k WHERE k.person_id = p.person_id AND k.revoked_at IS NULL)
              + (SELECT count(*)::int FROM hoster_key k WHERE k.person_id = p.person_id AND k.revoked_at IS NULL) AS keys
       FROM person p LEFT JOIN person i ON i.person_id = p.invited_by
      WHERE ($1::text IS NULL OR strpos(lower(p.email), lower($1)) > 0 OR strpos(lower(p.name), lower($1)) > 0)
        AND ($2 <> 'blocked' OR p.disabled_at IS NOT NULL) AND ($2 <> 'roles' OR p.installation_role IS NOT NULL)
        AND ($2 <> 'invited' OR (p.invited_role IS NOT NULL AND p.disabled_at IS NULL AND invited_role_of(p) IS NOT NULL))
        AND ($3::uuid IS NULL OR (p.created_at, p.person_id) < (SELECT a.created_at, a.person_id FROM person a WHERE a.person_id = $3))
      ORDER BY p.created_at DESC, p.person_id DESC LIMIT $4`,
    [search ?? null, show, after, limit + 1],
  )
  const { page, next_cursor } = pageOf(rows, limit, row => row.id)
  return {
    data: page.map(each => ({
      id: each.id,
      email: each.email,
      name: each.name,
      role: each.role,
      invited_role: each.invitedRole,
      ...(each.invitedRole === null
        ? { invited_by: null, invited_at: null }
        : { invited_by: each.invitedBy, invited_at: each.invitedAt?.toISOString() ?? null }),
      is_you: each.id === viewerId,
      is_blocked: each.isBlocked,
      is_verified: each.isVerified,
      has_second_factor: each.hasFactor,
      created_at: each.createdAt.toISOString(),
      last_seen_at: each.lastSeenAt?.toISOString() ?? null,
      customers: each.customers,
      hosters: each.hosters,
      keys: each.keys,
    })),
    next_cursor,
  }
}

async function listRoleChanges(sql: Sql, viewerId: string): Promise<RoleChanges> {
  const { rows } = await sql.query<{
    id: string
    email: string
    role: InstallationRole | null
    from: InstallationRole | null
    requestedBy: string | null
    requestedAt: Date
    isOwn: boolean
  }>(
    `SELECT change_id AS id, p.email, c.role, p.installation_role AS "from", by.email AS "requestedBy", requested_at AS "requestedAt",
            requested_by = $1 AS "isOwn"
       FROM role_change c JOIN person p USING (person_id) LEFT JOIN person by ON by.person_id = c.requested_by
      WHERE c.state = 'waiting' ORDER BY requested_at DESC LIMIT 100`,
    [viewerId],
  )
  return {
    data: rows.map(({ requestedBy, requestedAt, isOwn, ...shown }) => ({
      ...shown,
      requested_by: requestedBy,
      requested_at: requestedAt.toISOString(),
      is_own: isOwn,
    })),
  }
}
