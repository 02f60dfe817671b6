import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { ApiError } from '../../base/domain/errors.ts'

/**
 * Throws `last_way_in` if the person could not sign in any more after losing this many passkeys or identities. Locks
 * the person, so that two removals at the same time count one after the other.
 */
export async function requireOtherWayIn(
  sql: Sql,
  personId: string,
  { passkeys = 0, identities = 0 }: { passkeys?: number; identities?: number },
): Promise<void> {
  const { rows } = await sql.query<{ hasPassword: boolean }>(
    'SELECT password_hash IS NOT NULL AS "hasPassword" FROM person WHERE person_id = $1 FOR NO KEY UPDATE',
    [personId],
  )
  if (rows[0]?.hasPassword) return
  const { left } = await queryRow<{ left: number }>(
    sql,
    `SELECT greatest((SELECT count(*) FROM person_passkey WHERE person_id = $1) - $2, 0)::int
          + greatest((SELECT count(*) FROM person_identity WHERE person_id = $1) - $3, 0)::int AS left`,
    [personId, passkeys, identities],
  )
  if (left <= 0) throw new ApiError('last_way_in')
}
