import { faultOf } from '../../../base/db/database-fault.ts'
import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { failpoint } from '../../../base/runtime/failpoint.ts'
import type { NodeHeartbeats, ReclaimOptions } from '../ledger-store.ts'

/**
 * Declares nodes dead and ends the leases of all dead nodes, one customer per transaction: the held money is free
 * again, and each request of a strict lease gets a free usage row with the outcome `node_died`. Any number of
 * nodes may do this at once. Returns the number of leases. When the leases of a customer cannot be ended, it
 * ends those of all other customers first and then rejects.
 */
export async function reclaimDeadLeases(db: Sql, options: ReclaimOptions): Promise<number> {
  const { onlyNodeAlive, deadNodes = [], silentNodes = [] } = options
  if (onlyNodeAlive !== undefined) await declareNodesDead(db, await otherNodes(db, onlyNodeAlive))
  if (deadNodes.length > 0) await declareNodesDead(db, deadNodes)
  if (silentNodes.length > 0) await declareSilentNodesDead(db, silentNodes)
  failpoint('reap-buried')
  let reclaimed = 0
  const failures: unknown[] = []
  for (const customerId of await customersOfDeadNodes(db)) {
    if (options.signal?.aborted) break
    try {
      const { count } = await queryRow<{ count: number }>(db, 'SELECT reclaim_leases($1, $2)::integer AS count', [
        customerId,
        options.nodeShard,
      ])
      reclaimed += count
      failpoint('reap-customer-reclaimed')
    } catch (error) {
      // One locked balance, or rows that PostgreSQL rejects, must not delay the other customers.
      if (!isErrorOfOneCustomer(error)) throw error
      failures.push(error)
    }
  }
  await db.query('SELECT forget_dead_nodes()')
  if (failures.length > 0) throw failures[0]
  return reclaimed
}

/** Whether the error concerns the rows of one customer only: they are locked or damaged, or PostgreSQL rejects them. */
export function isErrorOfOneCustomer(error: unknown): boolean {
  const fault = faultOf(error)
  return fault === 'blocked' || fault === 'rejected'
}

/** Declares these nodes dead, whatever heartbeats they have sent. */
export async function declareNodesDead(db: Sql, nodeIds: readonly string[]): Promise<void> {
  await db.query('SELECT declare_nodes_dead($1, NULL)', [nodeIds])
}

async function declareSilentNodesDead(db: Sql, nodes: readonly NodeHeartbeats[]): Promise<void> {
  await db.query('SELECT declare_nodes_dead($1, $2)', [
    nodes.map(({ nodeId }) => nodeId),
    nodes.map(({ heartbeats }) => heartbeats),
  ])
}

async function otherNodes(db: Sql, nodeId: string): Promise<string[]> {
  const { rows } = await db.query<{ node_id: string }>('SELECT node_id FROM node_heartbeat WHERE node_id <> $1', [
    nodeId,
  ])
  return rows.map(row => row.node_id)
}

async function customersOfDeadNodes(db: Sql): Promise<string[]> {
  const { rows } = await db.query<{ customer_id: string }>(
    `SELECT DISTINCT customer_id FROM lease l WHERE NOT EXISTS (SELECT FROM node n WHERE n.node_id = l.node_id AND n.state = 'alive')`,
  )
  return rows.map(row => row.customer_id)
}
