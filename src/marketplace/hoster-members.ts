import type { Sql } from '../db/pool.ts'
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

/** Makes a person a member of a hoster. */
export async function addHosterMember(
  sql: Sql,
  { hosterId, personId, role }: { hosterId: string; personId: string; role: MemberRole },
): Promise<void> {
  await sql.query('INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, $3)', [
    hosterId,
    personId,
    role,
  ])
}
