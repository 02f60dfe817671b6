import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'

/** Which groups of a sign-in service have a role on the installation, as configured. */
export interface GroupRoles {
  /** The claim that names the groups of a person. */
  readonly claim: string
  readonly operators: readonly string[]
  readonly auditors: readonly string[]
  /** How long a role lasts after a sign-in. */
  readonly hours: number
}

/** A service with groups. */
interface GroupService {
  readonly id: string
  readonly issuer: string
  readonly groups: GroupRoles
}

/** What became of the role of a person who signs in: see take_group_role in sql/functions/operator/group_roles.sql. */
export type GroupVerdict = 'done' | 'by_hand' | 'not_verified' | 'no_factor' | 'blocked'

/** Notes which roles the groups of the services may give. Run it in a transaction, as the owner. */
export async function writeGroupRules(sql: Sql, providers: readonly GroupService[]): Promise<void> {
  const rules = providers.flatMap(({ id, issuer, groups }) =>
    rolesOf(groups).map(role => ({ issuer, role, provider: id, hours: groups.hours })),
  )
  await sql.query('LOCK TABLE group_role_rule IN SHARE ROW EXCLUSIVE MODE')
  await sql.query('DELETE FROM group_role_rule')
  await sql.query(
    `INSERT INTO group_role_rule (issuer, role, provider, hours)
     SELECT DISTINCT ON (issuer, role) issuer, role, provider, hours
       FROM jsonb_to_recordset($1) AS rule (issuer text, role text, provider text, hours integer) ORDER BY issuer, role, hours`,
    [JSON.stringify(rules)],
  )
}

/** The roles that groups of the service have. */
function rolesOf({ operators, auditors }: GroupRoles): InstallationRole[] {
  return [
    ...(operators.length > 0 ? (['operator'] as const) : []),
    ...(auditors.length > 0 ? (['auditor'] as const) : []),
  ]
}

/** Whether any group of the service has a role. */
export function hasRoles(groups: GroupRoles): boolean {
  return rolesOf(groups).length > 0
}

/** Returns the highest role that one of these groups has; null for none. */
export function roleOfGroups({ operators, auditors }: GroupRoles, claim: unknown): InstallationRole | null {
  // Some services write a single group as a text.
  const groups = new Set<unknown>(Array.isArray(claim) ? claim : [claim])
  if (operators.some(group => groups.has(group))) return 'operator'
  return auditors.some(group => groups.has(group)) ? 'auditor' : null
}

/** Gives or takes the role of the groups of a person who signs in. It may end the sessions of the person. */
export async function takeGroupRole(
  sql: Sql,
  personId: string,
  { issuer, groupRole }: { readonly issuer: string; readonly groupRole: InstallationRole | null },
  address: string,
): Promise<GroupVerdict> {
  const { verdict } = await queryRow<{ verdict: GroupVerdict }>(
    sql,
    'SELECT take_group_role($1, $2, $3, $4) AS verdict',
    [personId, issuer, groupRole, address],
  )
  return verdict
}

/** Ends the roles of groups whose time is over. */
export async function endGroupRoles(sql: Sql): Promise<void> {
  await sql.query('SELECT end_group_roles()')
}
