import type { Sql } from '../db/pool.ts'

export interface ReclaimOptions {
  /** The usage_rollup shard of the node that does the work. */
  readonly nodeShard: number
  /**
   * Every other node is known to be dead, so there is nothing to wait for: the server lock of an embedded PostgreSQL proves it to the
   * process that just started. Names the node that is alive.
   */
  readonly onlyNodeAlive?: string
  /** How long after its expiry a node is declared dead, and how long a restarted PostgreSQL waits for heartbeats to come back. Default 60,000. */
  readonly graceMs?: number
}

const GRACE_MS = 60_000

/**
 * Declares expired nodes dead and ends their leases, one customer per transaction: the money returns and each request gets a free usage
 * row with outcome `node_died`. Any number of nodes may do this at once. Returns the number of leases ended.
 */
export async function reclaimDeadLeases(db: Sql, options: ReclaimOptions): Promise<number> {
  if (options.onlyNodeAlive === undefined) await buryExpiredNodes(db, options.graceMs ?? GRACE_MS)
  else await buryAllNodesBut(db, options.onlyNodeAlive)
  let reclaimed = 0
  for (const customerId of await customersOfDeadNodes(db)) {
    const { rows } = await db.query<{ count: number }>('SELECT reclaim_leases($1, $2)::integer AS count', [
      customerId,
      options.nodeShard,
    ])
    reclaimed += rows[0]!.count
  }
  await forgetOldNodes(db)
  return reclaimed
}

async function buryExpiredNodes(db: Sql, graceMs: number): Promise<void> {
  await db.query(
    `UPDATE node SET state = 'dead' FROM (SELECT now() - $1 * interval '1 ms' AS before) AS grace
    WHERE state = 'alive' AND expires_at < before AND pg_postmaster_start_time() < before`,
    [graceMs],
  )
}

async function buryAllNodesBut(db: Sql, nodeId: string): Promise<void> {
  await db.query(`UPDATE node SET state = 'dead' WHERE state = 'alive' AND node_id <> $1`, [nodeId])
}

async function customersOfDeadNodes(db: Sql): Promise<string[]> {
  const { rows } = await db.query<{ customer_id: string }>(
    `SELECT DISTINCT customer_id FROM lease l WHERE NOT EXISTS (SELECT FROM node n WHERE n.node_id = l.node_id AND n.state = 'alive')`,
  )
  return rows.map(row => row.customer_id)
}

async function forgetOldNodes(db: Sql): Promise<void> {
  await db.query(`DELETE FROM node n WHERE state = 'dead' AND expires_at < now() - interval '1 day'
      AND NOT EXISTS (SELECT FROM lease l WHERE l.node_id = n.node_id)`)
}
