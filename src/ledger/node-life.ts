import type { Sql } from '../db/pool.ts'

/** How long a node counts as alive after a heartbeat; it sends one every HEARTBEAT_MS. */
export const NODE_TTL_MS = 15_000
export const HEARTBEAT_MS = 3_000

/** Announces a process start. `nodeId` is a new UUID each time, never reused, so that a lease names the one process that may settle it. */
export async function registerNode(db: Sql, nodeId: string): Promise<void> {
  await db.query(
    `INSERT INTO node (node_id, expires_at) VALUES ($1, now() + ${TTL})
      ON CONFLICT (node_id) DO UPDATE SET state = 'alive', expires_at = excluded.expires_at`,
    [nodeId],
  )
}

/**
 * Stays alive for another NODE_TTL_MS. Returns false when the node had been declared dead, as after a long sleep of the machine: its leases
 * were reclaimed and their requests are free. It lives again from here on. That is safe because a strict lease ends by the deletion of its
 * row, exactly once, whoever does it; a settlement that comes too late finds the `node_died` row and charges nothing.
 */
export async function heartbeat(db: Sql, nodeId: string): Promise<boolean> {
  const { rows } = await db.query<{ was_alive: boolean }>(
    `WITH before AS (SELECT state FROM node WHERE node_id = $1)
      INSERT INTO node (node_id, expires_at) VALUES ($1, now() + ${TTL})
      ON CONFLICT (node_id) DO UPDATE SET state = 'alive', expires_at = excluded.expires_at
      RETURNING EXISTS (SELECT FROM before WHERE state = 'alive') AS was_alive`,
    [nodeId],
  )
  return rows[0]!.was_alive
}

/** Declares the own node dead at the end of a drain: what it could not settle may be reclaimed at once. */
export async function retireNode(db: Sql, nodeId: string): Promise<void> {
  await db.query(`UPDATE node SET state = 'dead', expires_at = now() WHERE node_id = $1`, [nodeId])
}

const TTL = `interval '${NODE_TTL_MS} ms'`
