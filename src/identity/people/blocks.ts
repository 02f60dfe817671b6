import { noteAction } from '../../base/db/audit-log.ts'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { dropInvitedRole } from './invited-roles.ts'
import { lockPerson } from './persons.ts'
import { endOtherSessions } from './sessions.ts'

/** The person who acts, for the audit log; null: the command line. */
export interface BlockActor {
  readonly personId: string | null
  readonly address: string | null
}

/**
 * Keeps a person out: ends the sessions, the links and an invitation that has given no role yet. Within two seconds, all nodes
 * refuse the keys that the person made, including those of agents. The role on the installation must have been taken away
 * before, see `setRole`. Run it in a transaction. Returns how many sessions ended; undefined when the person was blocked before.
 */
export async function blockPerson(
  sql: Sql,
  { personId, email }: { personId: string; email: string },
  { reason, actor }: { reason: string; actor: BlockActor },
): Promise<number | undefined> {
  await lockPerson(sql, personId)
  const { rowCount } = await sql.query(
    'UPDATE person SET disabled_at = now() WHERE person_id = $1 AND disabled_at IS NULL',
    [personId],
  )
  if (rowCount === 0) return undefined
  await dropInvitedRole(sql, personId)
  const ended = await endOtherSessions(sql, personId, null)
  await sql.query('DELETE FROM person_token WHERE person_id = $1 OR made_by = $1', [personId])
  await bumpControlVersion(sql, 'access')
  await noteAction(sql, { ...actor, action: 'person.blocked', subject: email, detail: { reason, ended } })
  return ended
}

/**
 * Lets a blocked person in again. The keys that the person made work again too. Returns false when the person was not
 * blocked.
 */
export async function unblockPerson(
  sql: Sql,
  { personId, email }: { personId: string; email: string },
  actor: BlockActor,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    'UPDATE person SET disabled_at = NULL WHERE person_id = $1 AND disabled_at IS NOT NULL',
    [personId],
  )
  if (rowCount === 0) return false
  await bumpControlVersion(sql, 'access')
  await noteAction(sql, { ...actor, action: 'person.unblocked', subject: email })
  return true
}
