import type { Sql } from '../base/db/pool.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { Failure } from './failure.ts'

/** Returns the hoster with this name or id. Throws Failure. */
export async function resolveHoster(
  sql: Sql,
  nameOrId: string,
): Promise<{ readonly hosterId: string; readonly name: string }> {
  const { rows } = await sql.query<{ hosterId: string; name: string }>(
    'SELECT hoster_id AS "hosterId", name FROM hoster WHERE hoster_id::text = lower($1) OR name = $1',
    [nameOrId],
  )
  if (rows[0] === undefined) {
    throw new Failure(`There is no hoster ${nameOrId}. List hosters with: ${ownCommand('hoster list')}`)
  }
  return rows[0]
}
