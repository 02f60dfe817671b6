import { randomUUID } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { MemberRole } from '../../base/domain/member-role.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import {
  type Invitations,
  type MadeInvitation,
  type NewInvitation,
  type PendingInvite,
  requireInvitable,
} from '../../identity/people/invitations.ts'
import { applyAsHoster, type ServerRules } from './apply.ts'
import { noteHosterAction, type StateActor } from './change-hoster-state.ts'
import { listHosterMembers } from './hoster-members.ts'
import { showHoster } from './show-hoster.ts'

export type SentInvite = MadeInvitation & { readonly hosterId: string }

/** The person or the command line that invites. */
export interface Inviter {
  readonly actor: StateActor
  /** Null: the command line. */
  readonly madeBy: NewInvitation['madeBy']
  /** False: only the operator makes accounts, so the inviter makes members owners and nothing else. */
  readonly mayAdd: boolean
}

/**
 * Invitations of members of hosters. All methods reject with ApiError `database_unavailable`, `hoster_not_found`, and
 * what they name.
 */
export interface HosterInvites {
  list(hosterId: string): Promise<PendingInvite[]>
  /** Invites an address to a hoster. Rejects with `invalid_value` for a member. */
  invite(inviter: Inviter, hosterId: string, invitation: { email: string; role: MemberRole }): Promise<SentInvite>
  /** Makes a hoster with an agent, and invites its owner, who may name another server. Rejects like `applyAsHoster`. */
  inviteNew(inviter: Inviter, invitation: { name: string; email: string }): Promise<SentInvite>
  /** Rejects with `not_found`. */
  revoke(actor: StateActor, hosterId: string, inviteId: string): Promise<void>
}

export function createHosterInvites({
  invitations,
  server,
  shareBps,
}: {
  readonly invitations: Invitations
  readonly server: ServerRules
  /** The share of each charge that a new hoster earns. */
  /** The share of a new hoster in basis points. */
  readonly shareBps: () => number
}): HosterInvites {
  async function send(
    { actor, madeBy }: Inviter,
    { hosterId, email, role }: { hosterId: string; email: string; role: MemberRole },
    check: (sql: Sql) => Promise<string>,
  ): Promise<SentInvite> {
    const note = (sql: Sql) =>
      noteHosterAction(sql, actor, hosterId, { action: 'hoster.member_invited', detail: { email, role } })
    const sent = await invitations.send({ target: { hosterId }, email, role, madeBy, check, note })
    return { hosterId, ...sent }
  }

  return {
    list: hosterId => invitations.list({ hosterId }),
    invite: (inviter, hosterId, { email, role }) =>
      send(inviter, { hosterId, email, role }, async sql => {
        const { name, state } = await showHoster(sql, hosterId)
        if (state === 'retired')
          throw new ApiError('hoster_state_refused', { message: sayRefusal('refusal.hoster_left') })
        requireInvitable(await listHosterMembers(sql, hosterId), { email, role }, inviter.mayAdd)
        return name
      }),
    inviteNew(inviter, { name, email }) {
      const hosterId = randomUUID()
      return send(inviter, { hosterId, email, role: 'owner' }, async sql => {
        const application = {
          hosterId,
          name,
          server: { transport: 'agent', baseUrl: null, apiKey: null },
          personId: null,
          shareBps: shareBps(),
          actor: inviter.actor,
        } as const
        await applyAsHoster(sql, application, server)
        return name
      })
    },
    revoke: (actor, hosterId, inviteId) =>
      invitations.revoke({ hosterId }, inviteId, (sql, detail) =>
        noteHosterAction(sql, actor, hosterId, { action: 'hoster.invite_revoked', detail }),
      ),
  }
}
