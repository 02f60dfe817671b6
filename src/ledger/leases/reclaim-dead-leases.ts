import { faultOf } from '../../db/database-fault.ts'
import type { Sql } from '../../db/pool.ts'
import { failpoint } from '../../runtime/failpoint.ts'
import { NODE_TTL_MS, type ReclaimOptions } from '../ledger-store.ts'

/**
 * Declares expired nodes dead and ends their leases, one customer per transaction: the held money is free
 * again, and each request of a strict lease gets a free usage row with the outcome `node_died`. Any number of
 * nodes may do this at once. Returns the number of leases. When the leases of a customer cannot be ended, it
 * ends those of all other customers first and then rejects.
 */
export async function reclaimDeadLeases(db: Sql, options: ReclaimOptions): Promise<number> {
  const { onlyNodeAlive, deadNodes = [], graceMs = GRACE_MS } = options
  if (onlyNodeAlive !== undefined) await declareDead(db, 'node_id <> $1', onlyNodeAlive)
  if (deadNodes.length > 0) await declareDead(db, 'node_id = ANY ($1)', deadNodes)
  await declareExpiredNodesDead(db, graceMs)
  failpoint('reap-buried')
  let reclaimed = 0
  const failures: unknown[] = []
  for (const customerId of await customersOfDeadNodes(db)) {
    if (options.signal?.aborted) break
    try {
      const { rows } = await db.query<{ count: number }>('SELECT reclaim_leases($1, $2)::integer AS count', [
        customerId,
        options.nodeShard,
      ])
      reclaimed += rows[0]!.count
      failpoint('reap-customer-reclaimed')
    } catch (error) {
      // One locked balance, or rows that PostgreSQL rejects, must not delay the other customers.
      if (!isErrorOfOneCustomer(error)) throw error
      failures.push(error)
    }
  }
  await forgetOldNodes(db)
  if (failures.length > 0) throw failures[0]
  return reclaimed
}

/** Whether the error concerns the rows of one customer only: they are locked or damaged, or PostgreSQL rejects them. */
export function isErrorOfOneCustomer(error: unknown): boolean {
  const fault = faultOf(error)
  return fault === 'blocked' || fault === 'rejected'
}

const GRACE_MS = 60_000

async function declareExpiredNodesDead(db: Sql, graceMs: number): Promise<void> {
  // PostgreSQL's clock was set back. A dead node must not count as alive until the old time; a live one sends
  // a heartbeat within a second.
  await db.query(
    `UPDATE node SET expires_at = now() + $1 * interval '1 ms' WHERE state = 'alive' AND expires_at > now() + 2 * $1 * interval '1 ms'`,
    [NODE_TTL_MS],
  )
  await declareDead(
    db,
    `(SELECT expires_at < before AND (pg_postmaster_start_time() < before OR pg_postmaster_start_time() > now())
      FROM (SELECT now() - $1 * interval '1 ms' AS before) AS grace)`,
    graceMs,
  )
}

/**
 * Declares nodes dead. Waits for their admissions in flight, so that no lease is granted after the death: see
 * lock_live_node.
 */
async function declareDead(db: Sql, condition: string, value: unknown): Promise<void> {
  await db.query(
    `UPDATE node SET state = 'dead' WHERE node_id IN (SELECT node_id FROM node WHERE state = 'alive' AND ${condition} FOR UPDATE)`,
    [value],
  )
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
