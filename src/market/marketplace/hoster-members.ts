import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { hasHosterRight } from '../../base/domain/hoster-access.ts'
import type { HosterState } from '../../base/domain/hoster-state.ts'
import type { EndedKeys, MemberRole } from '../../base/domain/member-role.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { requireNoNewOwner } from '../../identity/people/invitations.ts'
import { takeBackInvitations } from '../../identity/people/links.ts'
import { endHosterKeysOfMember } from './hoster-keys.ts'

/** Returns the role of a person at a hoster: null for strangers, undefined when there is no such hoster. */
export async function hosterRoleOf(
  sql: Sql,
  hosterId: string,
  personId: string,
): Promise<MemberRole | null | undefined> {
  const { rows } = await sql.query<{ role: MemberRole | null }>(
    `SELECT m.role FROM hoster h LEFT JOIN hoster_member m ON m.hoster_id = h.hoster_id AND m.person_id = $2
      WHERE h.hoster_id = $1`,
    [hosterId, personId],
  )
  return rows[0]?.role
}

/** A hoster that a person is a member of. */
export interface HosterMembership {
  readonly hosterId: string
  readonly name: string
  readonly state: HosterState
  readonly role: MemberRole
}

/** Returns the hosters of a person, oldest first. */
export async function listHosterMemberships(sql: Sql, personId: string): Promise<HosterMembership[]> {
  const { rows } = await sql.query<HosterMembership>(
    `SELECT hoster_id AS "hosterId", name, state, role FROM hoster_member m JOIN hoster h USING (hoster_id)
      WHERE person_id = $1 ORDER BY m.created_at, hoster_id`,
    [personId],
  )
  return rows
}

export interface HosterMember {
  readonly personId: string
  readonly email: string
  readonly name: string
  readonly role: MemberRole
  readonly joinedAt: Date
}

/** Returns the members of a hoster, oldest first. */
export async function listHosterMembers(sql: Sql, hosterId: string): Promise<HosterMember[]> {
  const { rows } = await sql.query<HosterMember>(
    `SELECT person_id AS "personId", email, name, role, m.created_at AS "joinedAt"
       FROM hoster_member m JOIN person USING (person_id)
      WHERE hoster_id = $1 ORDER BY m.created_at, person_id`,
    [hosterId],
  )
  return rows
}

/** Makes a person a member of a hoster, or changes the role of a member. An owner stays owner. */
export async function addHosterMember(
  sql: Sql,
  { hosterId, personId, role }: { hosterId: string; personId: string; role: MemberRole },
): Promise<void> {
  await sql.query(
    `INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, $3)
     ON CONFLICT (hoster_id, person_id) DO UPDATE SET role = EXCLUDED.role WHERE hoster_member.role <> 'owner'`,
    [hosterId, personId, role],
  )
}

/**
 * A change of a member: another role, or none (null). Keys of a person who leaves are revoked, or go over to `heirId`.
 */
export interface HosterMemberChange {
  readonly role: MemberRole | null
  readonly heirId: string | null
}

/**
 * Changes the role of a member, or removes the member with the keys that the person made. Run it in a transaction. Returns the address as
 * stored, with the role before. Throws `not_found` for persons that are no members, with or without an account, `last_owner`, and
 * `invalid_value` for a new owner.
 */
export async function changeHosterMember(
  sql: Sql,
  hosterId: string,
  isMember: (member: HosterMember) => boolean,
  { role, heirId }: HosterMemberChange,
): Promise<{ email: string; before: MemberRole; keys: EndedKeys }> {
  // Two owners who remove each other at the same time wait here.
  await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
  const members = await listHosterMembers(sql, hosterId)
  const member = members.find(isMember)
  if (member === undefined)
    throw new ApiError('not_found', {
      message: sayRefusal('refusal.no_hoster_member'),
      param: 'email',
    })
  const { personId, email, role: before } = member
  const isLastOwner = before === 'owner' && members.filter(each => each.role === 'owner').length === 1
  if (isLastOwner && role !== 'owner') {
    throw new ApiError('last_owner', {
      message: sayRefusal('refusal.last_hoster_owner'),
    })
  }
  requireNoNewOwner(member, role)
  if (role === null) {
    await takeBackInvitations(sql, { hosterId }, { personId, email })
    await sql.query('DELETE FROM hoster_member WHERE hoster_id = $1 AND person_id = $2', [hosterId, personId])
    return {
      email,
      before,
      keys: await endHosterKeysOfMember(sql, { hosterId, personId, heirId: heirId === personId ? null : heirId }),
    }
  }
  await sql.query('UPDATE hoster_member SET role = $3 WHERE hoster_id = $1 AND person_id = $2', [
    hosterId,
    personId,
    role,
  ])
  if (!hasHosterRight(role, 'people')) await takeBackInvitations(sql, { hosterId }, { personId, email: null })
  // A key that makes keys would be a way around the role. The others stay the person's own.
  const keys = hasHosterRight(role, 'keys')
    ? { revoked: 0, handedOver: 0 }
    : await endHosterKeysOfMember(sql, { hosterId, personId, heirId: personId })
  return { email, before, keys }
}
