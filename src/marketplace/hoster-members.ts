import type { Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import type { HosterState } from '../domain/hoster-state.ts'
import type { MemberRole } from '../domain/member-role.ts'

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
 * Gives the person with this e-mail address a role at the hoster, or none (null). Run it in a transaction. Returns the address as
 * stored, with the role before. Throws `not_found` when nobody here has the address or is a member to remove, and `last_owner`.
 */
export async function setHosterMember(
  sql: Sql,
  hosterId: string,
  { email, role }: { email: string; role: MemberRole | null },
): Promise<{ email: string; before: MemberRole | null }> {
  // Two owners who remove each other at the same time wait here.
  await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
  const members = await listHosterMembers(sql, hosterId)
  const member = members.find(each => each.email.toLowerCase() === email.toLowerCase())
  const isLastOwner = member?.role === 'owner' && members.filter(each => each.role === 'owner').length === 1
  if (isLastOwner && role !== 'owner') {
    throw new ApiError('last_owner', {
      message: 'A hoster needs an owner, and this is the last one. Make another member owner first.',
    })
  }
  if (role === null) {
    if (member === undefined) throw nobody(email)
    await sql.query('DELETE FROM hoster_member WHERE hoster_id = $1 AND person_id = $2', [hosterId, member.personId])
    return { email: member.email, before: member.role }
  }
  const { rows } = await sql.query<{ email: string }>(
    `WITH found AS (SELECT person_id, email FROM person WHERE lower(email) = lower($2) AND disabled_at IS NULL),
          added AS (
            INSERT INTO hoster_member (hoster_id, person_id, role) SELECT $1, person_id, $3 FROM found
            ON CONFLICT (hoster_id, person_id) DO UPDATE SET role = EXCLUDED.role)
     SELECT email FROM found`,
    [hosterId, email, role],
  )
  if (rows[0] === undefined) throw nobody(email)
  return { email: rows[0].email, before: member?.role ?? null }
}

function nobody(email: string): ApiError {
  return new ApiError('not_found', {
    message: `${email} cannot be found. The person has no account here. Send an invitation instead.`,
    param: 'email',
  })
}
