import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { dropInvitedRolesBy } from './invited-roles.ts'

/** Returns the customers and hosters that the person alone owns. They would have no owner without the person. */
export async function ownedAlone(sql: Sql, personId: string): Promise<string[]> {
  const { rows } = await sql.query<{ name: string }>(
    `SELECT c.email AS name FROM membership m JOIN customer c USING (customer_id)
      WHERE m.person_id = $1 AND m.role = 'owner' AND NOT EXISTS (
        SELECT FROM membership o WHERE o.customer_id = m.customer_id AND o.role = 'owner' AND o.person_id <> $1)
     UNION ALL
     SELECT h.name FROM hoster_member m JOIN hoster h USING (hoster_id)
      WHERE m.person_id = $1 AND m.role = 'owner' AND NOT EXISTS (
        SELECT FROM hoster_member o WHERE o.hoster_id = m.hoster_id AND o.role = 'owner' AND o.person_id <> $1)
     ORDER BY 1`,
    [personId],
  )
  return rows.map(({ name }) => name)
}

/**
 * Erases people: addresses, names, passwords, factors, sessions, links, memberships and limits. Revokes their API keys; revoke their
 * keys of hosters in the same transaction. The books and the audit log keep the ids, which then name nobody. These people have
 * no role on the installation.
 */
export async function erasePeople(sql: Sql, personIds: readonly string[]): Promise<void> {
  // An invitation that names nobody as its maker counts as one of the command line. One to the address would bring the person back.
  await sql.query(
    `DELETE FROM person_token t WHERE made_by = ANY ($1)
       OR EXISTS (SELECT FROM person p WHERE p.person_id = ANY ($1) AND lower(p.email) = lower(t.email))`,
    [personIds],
  )
  for (const personId of personIds) await dropInvitedRolesBy(sql, personId)
  // Also those of customers that they were members of before.
  await sql.query(
    'UPDATE api_key SET person_id = NULL, revoked_at = coalesce(revoked_at, now()) WHERE person_id = ANY ($1)',
    [personIds],
  )
  await sql.query('DELETE FROM person WHERE person_id = ANY ($1)', [personIds])
  await bumpControlVersion(sql, 'access')
}
