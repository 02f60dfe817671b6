import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'

// What the gateway asks about the hosters of connected agents.

/** Returns those of the keys that connect an agent now. */
export async function serveKeysInUse(sql: Sql, keyIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await sql.query<{ key_id: string }>(
    `SELECT key_id FROM hoster_key JOIN hoster USING (hoster_id)
      WHERE key_id = ANY ($1) AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
        AND 'serve' = ANY (scopes) AND state <> 'retired'`,
    [keyIds],
  )
  return new Set(rows.map(row => row.key_id))
}

/** The name, state and owners of a hoster, and its endpoints that agents serve, the oldest first. */
export async function readAgentHoster(
  sql: Sql,
  hosterId: string,
): Promise<{ name: string; state: string; ownerIds: string[]; endpointIds: string[] }> {
  const { name, state, owner_ids, endpoint_ids } = await queryRow<{
    name: string
    state: string
    owner_ids: string[]
    endpoint_ids: string[]
  }>(
    sql,
    `SELECT name, state, ARRAY(SELECT person_id FROM hoster_member m WHERE m.hoster_id = h.hoster_id AND role = 'owner') AS owner_ids,
                         ARRAY(SELECT endpoint_id FROM hoster_endpoint e WHERE e.hoster_id = h.hoster_id AND transport = 'agent'
                               ORDER BY created_at, endpoint_id) AS endpoint_ids
       FROM hoster h WHERE hoster_id = $1`,
    [hosterId],
  )
  return { name, state, ownerIds: owner_ids, endpointIds: endpoint_ids }
}
