import { noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'
import { dropInvitedRole, dropInvitedRolesBy } from './invited-roles.ts'
import type { Person } from './persons.ts'

/**
 * Changes the role of a person on the installation from the command line, which needs no second operator. Ends the
 * sessions of the person. Run it in a transaction, as the owner. Returns false for the last operator, who stays.
 */
export async function setRole(
  sql: Sql,
  { personId, email, installationRole: from }: Person,
  role: InstallationRole | null,
): Promise<boolean> {
  // Changes of roles queue here, so that two of them do not take the last operator.
  await sql.query('LOCK TABLE role_change IN SHARE ROW EXCLUSIVE MODE')
  const { isLast } = await queryRow<{ isLast: boolean }>(
    sql,
    `SELECT installation_role = 'operator' AND disabled_at IS NULL AND count_operators() = 1 AS "isLast"
       FROM person WHERE person_id = $1`,
    [personId],
  )
  if (isLast && role !== 'operator') return false
  const { rows: replaced } = await sql.query<{ to: InstallationRole | null; requested_by: string }>(
    `UPDATE role_change SET state = 'rejected' WHERE person_id = $1 AND state = 'waiting' RETURNING role AS "to", requested_by`,
    [personId],
  )
  await sql.query('UPDATE person SET installation_role = $2 WHERE person_id = $1', [personId, role])
  await sql.query('DELETE FROM group_role WHERE person_id = $1', [personId])
  await dropInvitedRole(sql, personId)
  if (role !== 'operator') await dropInvitedRolesBy(sql, personId)
  await sql.query('DELETE FROM person_session WHERE person_id = $1', [personId])
  const entry = { personId: null, subject: email, address: null }
  for (const detail of replaced) await noteAction(sql, { ...entry, action: 'role.rejected', detail })
  await noteAction(sql, { ...entry, action: 'role.changed', detail: { from, to: role } })
  return true
}
