import type { Sql } from '../../../base/db/pool.ts'

const BATCH = 1_000

/**
 * Deletes expired Idempotency-Keys and their stored answers, in small batches of one transaction each. Keeps the key
 * of a request that a live node has not finished, whatever PostgreSQL's clock says. Returns how many were deleted.
 */
export async function deleteExpiredClaims(sql: Sql): Promise<number> {
  for (let deleted = 0; ; ) {
    const { rowCount } = await sql.query(
      `DELETE FROM idempotency WHERE (customer_id, key) IN (
         SELECT customer_id, key FROM idempotency i WHERE expires_at <= now()
           AND (state = 'done' OR NOT EXISTS (SELECT FROM node_heartbeat h WHERE h.node_id = i.node_id))
         LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)`,
    )
    deleted += rowCount!
    if (rowCount! < BATCH) return deleted
  }
}
