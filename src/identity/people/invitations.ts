import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { InvitedRole, MemberRole } from '../../base/domain/member-role.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { type InviteTarget, IS_TO_TARGET, type MemberTarget, makeInviteLink, type RoleAt, targetIds } from './links.ts'
import { inviteMail } from './mail-texts.ts'
import type { PeopleMail } from './people-mail.ts'

export interface PendingInvite<Role extends InvitedRole = MemberRole> {
  readonly inviteId: string
  readonly email: string
  readonly role: Role
  readonly createdAt: Date
  readonly expiresAt: Date
  /** The e-mail address of the person who made it; null: the command line, or the person is gone. */
  readonly madeBy: string | null
}

export interface NewInvitation<Target extends InviteTarget = MemberTarget> {
  readonly target: Target
  readonly email: string
  readonly role: RoleAt<Target>
  /** The person who invites; null: the command line. */
  readonly madeBy: { readonly personId: string; readonly name: string } | null
  /** Checks the invitation, first in its transaction, and returns the name of the target. */
  readonly check: (sql: Sql) => Promise<string>
  /** Writes the audit log, last in the transaction. */
  readonly note: (sql: Sql) => Promise<void>
}

export interface MadeInvitation<Role extends InvitedRole = MemberRole> {
  readonly invite: PendingInvite<Role>
  /** Whether the mail server took the link. */
  readonly isMailed: boolean
  /**
   * The path of the link, if no mail server is configured. The link of a mail that failed is shown to nobody: the
   * inviter could join as the invited person, and a mailed link proves the address.
   */
  readonly path: string | null
}

/**
 * Invitations to customers, hosters and the installation. All methods reject with ApiError `database_unavailable`, and with
 * what they name.
 */
export interface Invitations {
  list<Target extends InviteTarget>(target: Target): Promise<PendingInvite<RoleAt<Target>>[]>
  /** Invites an address, and takes back earlier invitations of it. */
  send<Target extends InviteTarget>(invitation: NewInvitation<Target>): Promise<MadeInvitation<RoleAt<Target>>>
  /** @param note writes the audit log. Rejects with `not_found`. */
  revoke(
    target: InviteTarget,
    inviteId: string,
    note: (sql: Sql, revoked: { email: string; role: InvitedRole }) => Promise<void>,
  ): Promise<void>
}

export function createInvitations({ pool, clock, mail }: { pool: Pool; clock: Clock; mail: PeopleMail }): Invitations {
  return {
    list: target => listInvites(pool, target, clock.epochMs()).catch(refuseOutage),
    async send<Target extends InviteTarget>({ target, email, role, madeBy, check, note }: NewInvitation<Target>) {
      const { invite, path, name } = await transaction(pool, async sql => {
        const name = await check(sql)
        const link = { ...target, email, role, madeBy: madeBy?.personId ?? null, isMailed: mail.canSend }
        const path = await makeInviteLink(sql, link, clock.epochMs())
        const invites = await listInvites(sql, target, clock.epochMs())
        const invite = invites.find(each => each.email.toLowerCase() === email.toLowerCase())!
        await note(sql)
        return { invite, path, name }
      }).catch(refuseOutage)
      if (!mail.canSend) return { invite, isMailed: false, path }
      const by = madeBy?.name ?? 'The operator'
      const isMailed = await mail.send(inviteMail({ to: email, by, name, role, url: mail.url(path) }))
      return { invite, isMailed, path: null }
    },
    revoke: (target, inviteId, note) =>
      transaction(pool, async sql => {
        const { rows } = await sql.query<{ email: string; role: InvitedRole }>(
          `DELETE FROM person_token WHERE token_id = $3 AND purpose = 'invite' AND ${IS_TO_TARGET} RETURNING email, role`,
          [...targetIds(target), inviteId],
        )
        if (rows[0] === undefined) {
          throw new ApiError('not_found', { message: sayRefusal('refusal.no_open_invitation') })
        }
        await note(sql, rows[0])
      }).catch(refuseOutage),
  }
}

/**
 * Throws `invalid_value` for a member, unless the invitation makes the member an owner: nobody becomes one without
 * accepting it. The last owner cannot leave, and owners count their hosters.
 *
 * @param mayAdd false: only the operator makes accounts. Others are `sign_up_closed`.
 */
export function requireInvitable(
  members: readonly { readonly email: string; readonly role: MemberRole }[],
  { email, role }: { readonly email: string; readonly role: MemberRole },
  mayAdd: boolean,
): void {
  const member = members.find(each => each.email.toLowerCase() === email.toLowerCase())
  if (member === undefined) {
    if (mayAdd) return
    throw new ApiError('sign_up_closed')
  }
  if (role === 'owner' && member.role !== 'owner') return
  throw new ApiError('invalid_value', {
    message: sayRefusal('refusal.member_already', { email }),
    param: 'email',
  })
}

/** Throws `invalid_value` for a change that makes a member an owner: only the member can accept that. */
export function requireNoNewOwner(
  before: { readonly email: string; readonly role: MemberRole },
  role: MemberRole | null,
): void {
  if (role !== 'owner' || before.role === 'owner') return
  throw new ApiError('invalid_value', {
    message: sayRefusal('refusal.owner_by_invitation', { email: before.email }),
    param: 'role',
  })
}

async function listInvites<Target extends InviteTarget>(
  sql: Sql,
  target: Target,
  nowMs: number,
): Promise<PendingInvite<RoleAt<Target>>[]> {
  const { rows } = await sql.query<PendingInvite<RoleAt<Target>>>(
    `SELECT token_id AS "inviteId", t.email, t.role, t.created_at AS "createdAt", expires_at AS "expiresAt",
            p.email AS "madeBy"
       FROM person_token t LEFT JOIN person p ON p.person_id = t.made_by
      WHERE ${IS_TO_TARGET} AND purpose = 'invite' AND expires_at > $3 ORDER BY t.created_at DESC, token_id`,
    [...targetIds(target), new Date(nowMs)],
  )
  return rows
}
