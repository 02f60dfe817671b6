import type { Sql } from '../../../base/db/pool.ts'

/** Returns the ids of the nodes that are alive. A node that was killed is among them until another declares it dead. */
export async function listLiveNodes(sql: Sql): Promise<string[]> {
  const { rows } = await sql.query<{ node_id: string }>('SELECT node_id FROM node_heartbeat ORDER BY node_id')
  return rows.map(({ node_id }) => node_id)
}
