import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { KeyLimit } from '../../base/domain/caller.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type EndedKeys, hasRight, type MemberRole } from '../../base/domain/member-role.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import {
  type Invitations,
  type MadeInvitation,
  type PendingInvite,
  requireInvitable,
  requireNoNewOwner,
} from './invitations.ts'
import { takeBackInvitations } from './links.ts'
import { BUDGET_COLUMNS, BUDGET_JOINS, limitText, type MemberBudget, setMemberLimit } from './member-limits.ts'
import { HAS_FACTOR } from './persons.ts'
import type { ClientTrace, SignedIn } from './sessions.ts'

/** The spend limit is that of `MemberBudget`. */
export interface Member extends MemberBudget {
  readonly personId: string
  readonly email: string
  readonly name: string
  readonly role: MemberRole
  readonly joinedAt: Date
  /** When a session of the person was last used; null: no session is open. */
  readonly lastSeenAt: Date | null
  readonly hasSecondFactor: boolean
}

export interface MemberChange {
  readonly role?: MemberRole | undefined
  readonly limit?: KeyLimit | null | undefined
}

/** What happens to the keys of a person who leaves. */
export type KeysOfLeaver = 'revoke' | 'hand_over'

/** Revokes the keys of a member. Those that make no other keys go over to `heirId` if it is given. */
export type EndKeysOfMember = (
  sql: Sql,
  member: { readonly customerId: string; readonly personId: string; readonly heirId: string | null },
) => Promise<EndedKeys>

/** The person who acts, for the audit log. */
interface Actor {
  readonly signedIn: SignedIn
  readonly client: ClientTrace
  readonly customerId: string
}

/**
 * The members of a customer. A customer always keeps an owner. All methods reject with ApiError `database_unavailable`,
 * and with what they name.
 */
export interface Members {
  list(customerId: string): Promise<Member[]>
  /**
   * Changes the role, the spend limit (null removes it), or both. Rejects with `not_found`, `last_owner`, or
   * `invalid_value` for a new owner.
   *
   * @param changeOf returns what changes, from the member as it is
   */
  change(actor: Actor, personId: string, changeOf: (member: Member) => MemberChange): Promise<Member>
  /**
   * Removes a member, and ends the keys that the person made; by choice, they go over to the person who acts. Rejects
   * with `not_found` or `last_owner`. A person may remove their own membership, and leaves no keys.
   */
  remove(actor: Actor, personId: string, keys: KeysOfLeaver): Promise<EndedKeys>
  invites(customerId: string): Promise<PendingInvite[]>
  /**
   * Invites an address, and takes back earlier invitations of it. Rejects with `invalid_value` for members, unless they
   * are to become owners, and with `sign_up_closed`.
   */
  invite(actor: Actor, invitation: { email: string; role: MemberRole }): Promise<MadeInvitation>
  /** Rejects with `not_found`. */
  revokeInvite(actor: Actor, inviteId: string): Promise<void>
}

export function createMembers({
  pool,
  clock,
  invitations,
  endKeys,
  mayInvite,
}: {
  pool: Pool
  clock: Clock
  invitations: Invitations
  endKeys: EndKeysOfMember
  /** False: only the operator makes accounts. */
  mayInvite: boolean
}): Members {
  const inTransaction = <T>(work: (sql: Sql) => Promise<T>) => transaction(pool, work).catch(refuseOutage)
  const note = (
    sql: Sql,
    { signedIn, client, customerId }: Actor,
    entry: Pick<Noted, 'action' | 'subject' | 'detail'>,
  ) => noteAction(sql, { ...entry, personId: signedIn.person.personId, customerId, address: client.address })

  /** Locks the members of the customer, and returns one of them. */
  async function lockMember(sql: Sql, customerId: string, personId: string): Promise<Locked> {
    // Two owners who remove each other at the same time wait here.
    await sql.query('SELECT FROM customer WHERE customer_id = $1 FOR NO KEY UPDATE', [customerId])
    const members = await listMembers(sql, customerId, clock.epochMs())
    const member = members.find(each => each.personId === personId)
    if (member === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_member') })
    const isLastOwner = member.role === 'owner' && members.filter(({ role }) => role === 'owner').length === 1
    return { member, isLastOwner }
  }

  return {
    list: customerId => listMembers(pool, customerId, clock.epochMs()).catch(refuseOutage),
    change: (actor, personId, changeOf) =>
      inTransaction(async sql => {
        const { customerId } = actor
        const { member, isLastOwner } = await lockMember(sql, customerId, personId)
        const { role = member.role, limit } = changeOf(member)
        if (isLastOwner && role !== 'owner') throw new ApiError('last_owner')
        requireNoNewOwner(member, role)
        if (limit !== undefined) await setMemberLimit(sql, customerId, personId, limit)
        if (role !== member.role) {
          await sql.query('UPDATE membership SET role = $3 WHERE customer_id = $1 AND person_id = $2', [
            customerId,
            personId,
            role,
          ])
          // A key that makes keys would be a way around the role. The others stay the person's own.
          if (!hasRight(role, 'keys')) await endKeys(sql, { customerId, personId, heirId: personId })
          if (!hasRight(role, 'people')) await takeBackInvitations(sql, { customerId }, { personId, email: null })
        }
        const changed = (await listMembers(sql, customerId, clock.epochMs())).find(each => each.personId === personId)!
        if (limit !== undefined) {
          const detail = { from: limitText(member), to: limitText(changed) }
          await note(sql, actor, { action: 'member.limit_changed', subject: member.email, detail })
        }
        if (role !== member.role) {
          const detail = { from: member.role, to: role }
          await note(sql, actor, { action: 'member.role_changed', subject: member.email, detail })
        }
        return changed
      }),
    remove: (actor, personId, keys) =>
      inTransaction(async sql => {
        const { member, isLastOwner } = await lockMember(sql, actor.customerId, personId)
        if (isLastOwner) throw new ApiError('last_owner')
        const { email, role } = member
        await sql.query('DELETE FROM membership WHERE customer_id = $1 AND person_id = $2', [
          actor.customerId,
          personId,
        ])
        await takeBackInvitations(sql, { customerId: actor.customerId }, { personId, email })
        const { personId: actorId } = actor.signedIn.person
        const heirId = keys === 'revoke' || personId === actorId ? null : actorId
        const ended = await endKeys(sql, { customerId: actor.customerId, personId, heirId })
        const action = personId === actorId ? 'member.left' : 'member.removed'
        const detail = { role, keys_revoked: ended.revoked, keys_handed_over: ended.handedOver }
        await note(sql, actor, { action, subject: email, detail })
        return ended
      }),
    invites: customerId => invitations.list({ customerId }),
    async invite(actor, { email, role }) {
      const { customerId, signedIn } = actor
      const { personId, name, email: own } = signedIn.person
      return await invitations.send({
        target: { customerId },
        email,
        role,
        madeBy: { personId, name: name || own },
        check: sql => checkInvitation(sql, { customerId, email, role }, { mayAdd: mayInvite, nowMs: clock.epochMs() }),
        note: sql => note(sql, actor, { action: 'member.invited', subject: email, detail: { role } }),
      })
    },
    revokeInvite: (actor, inviteId) =>
      invitations.revoke({ customerId: actor.customerId }, inviteId, (sql, { email, role }) =>
        note(sql, actor, { action: 'invite.revoked', subject: email, detail: { role } }),
      ),
  }
}

/** Returns the e-mail address of the customer. Throws `customer_not_found`, or as `requireInvitable`. */
export async function checkInvitation(
  sql: Sql,
  { customerId, ...invitation }: { customerId: string; email: string; role: MemberRole },
  { mayAdd, nowMs }: { readonly mayAdd: boolean; readonly nowMs: number },
): Promise<string> {
  const { rows } = await sql.query<{ email: string }>(
    'SELECT email FROM customer WHERE customer_id = $1 AND deleted_at IS NULL',
    [customerId],
  )
  if (rows[0] === undefined) throw new ApiError('customer_not_found')
  requireInvitable(await listMembers(sql, customerId, nowMs), invitation, mayAdd)
  return rows[0].email
}

type Noted = Parameters<typeof noteAction>[1]

interface Locked {
  readonly member: Member
  readonly isLastOwner: boolean
}

/** Returns the members of a customer, in the order in which they joined. */
export async function listMembers(sql: Sql, customerId: string, nowMs: number): Promise<Member[]> {
  const { rows } = await sql.query<Member>(
    `SELECT m.person_id AS "personId", p.email, p.name, m.role, m.created_at AS "joinedAt",
            (SELECT max(last_seen_at) FROM person_session s WHERE s.person_id = m.person_id) AS "lastSeenAt",
            ${HAS_FACTOR} AS "hasSecondFactor", ${BUDGET_COLUMNS}
       FROM membership m JOIN person p USING (person_id) ${BUDGET_JOINS}
      WHERE m.customer_id = $2 ORDER BY m.created_at, m.person_id`,
    [new Date(nowMs), customerId],
  )
  return rows
}
