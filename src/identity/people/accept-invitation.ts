import { noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import type { MemberRole } from '../../base/domain/member-role.ts'
import { noteInvitedRole } from './invited-roles.ts'
import { isToInstallation, type ShownInvitation, useInviteLink } from './links.ts'
import { setMember } from './persons.ts'
import type { ProveAddress } from './prove-address.ts'

/** Makes a person a member of a hoster. */
export type JoinHoster = (sql: Sql, member: { hosterId: string; personId: string; role: MemberRole }) => Promise<void>

interface AcceptDeps {
  readonly joinHoster: JoinHoster
  readonly proveAddress: ProveAddress
  readonly address: string
  readonly nowMs: number
}

/**
 * Makes the person of an invitation a member of its customer or hoster, and uses up its link. One to the installation notes
 * the role, which an operator gives by a change of roles. A mailed one proves the address: store passwords, identities and
 * sessions after it.
 */
export async function acceptInvitation(
  sql: Sql,
  { tokenHash, invitation, personId }: { tokenHash: Buffer; invitation: ShownInvitation; personId: string },
  { joinHoster, proveAddress, address, nowMs }: AcceptDeps,
): Promise<void> {
  const { email, isMailed } = invitation
  const madeBy = await useInviteLink(sql, tokenHash)
  if (isMailed) await proveAddress(sql, personId, nowMs)
  if (isToInstallation(invitation)) {
    const { role } = invitation
    await noteInvitedRole(sql, { personId, role, madeBy })
    await noteAction(sql, { action: 'operator.joined', personId, subject: email, detail: { role }, address })
    return
  }
  const { target, role } = invitation
  if ('customerId' in target) await setMember(sql, { ...target, personId, role })
  else await joinHoster(sql, { ...target, personId, role })
  await noteAction(sql, {
    action: 'member.joined',
    personId,
    subject: email,
    ...('customerId' in target
      ? { customerId: target.customerId, detail: { role } }
      : { detail: { role, hoster_id: target.hosterId } }),
    address,
  })
}
