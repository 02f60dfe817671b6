import type { Sql } from '../../base/db/pool.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'

/**
 * Whether a person waits for a role, as `invited_role_of` says: that function takes a whole person, with columns that not every role
 * of the database may read.
 */
export const AWAITS_ROLE =
  "invited_role IS NOT NULL AND invited_at > now() - interval '14 days' AND is_operator(invited_by)"

/** Notes for which role a person has come by the link of an operator. A role that the person has already needs no note. */
export async function noteInvitedRole(
  sql: Sql,
  { personId, role, madeBy }: { personId: string; role: InstallationRole; madeBy: string | null },
): Promise<void> {
  await sql.query(
    `UPDATE person SET invited_role = $2, invited_by = $3, invited_at = now()
      WHERE person_id = $1 AND installation_role IS DISTINCT FROM $2`,
    [personId, role, madeBy],
  )
}

/** Returns the role that a person was invited for, while an operator may still give it; null: none. */
export async function readInvitedRole(sql: Sql, personId: string): Promise<InstallationRole | null> {
  const { rows } = await sql.query<{ role: InstallationRole | null }>(
    `SELECT invited_role AS role FROM person WHERE person_id = $1 AND installation_role IS NULL AND ${AWAITS_ROLE}`,
    [personId],
  )
  return rows[0]?.role ?? null
}

/** Forgets the role. Returns it with the address of the person; undefined if there was none. */
export async function dropInvitedRole(
  sql: Sql,
  personId: string,
): Promise<{ readonly email: string; readonly role: InstallationRole } | undefined> {
  const { rows } = await sql.query<{ email: string; role: InstallationRole }>(
    `UPDATE person p SET invited_role = NULL, invited_by = NULL, invited_at = NULL
       FROM (SELECT person_id, invited_role AS role FROM person WHERE person_id = $1 AND invited_role IS NOT NULL FOR NO KEY UPDATE) b
      WHERE p.person_id = b.person_id RETURNING p.email, b.role`,
    [personId],
  )
  return rows[0]
}

/** Forgets the invitations of an operator that were accepted and have given no role. */
export async function dropInvitedRolesBy(sql: Sql, operatorId: string): Promise<void> {
  await sql.query('SELECT drop_invited_roles($1)', [operatorId])
}
