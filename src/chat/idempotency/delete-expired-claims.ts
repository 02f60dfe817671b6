import type { Sql } from '../../db/pool.ts'

const BATCH = 1_000

/**
 * Deletes expired Idempotency-Keys and their stored answers, in small batches of one transaction each. Returns
 * how many were deleted.
 */
export async function deleteExpiredClaims(sql: Sql): Promise<number> {
  for (let deleted = 0; ; ) {
    const { rowCount } = await sql.query(
      `DELETE FROM idempotency WHERE (customer_id, key) IN (
         SELECT customer_id, key FROM idempotency WHERE expires_at <= now() LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)`,
    )
    deleted += rowCount!
    if (rowCount! < BATCH) return deleted
  }
}
