import type { Sql } from '../../../base/db/pool.ts'

/** Deletes the texts of all requests of a customer: what was recorded, and the answers that are kept for a repeat. */
export async function deleteContents(sql: Sql, customerId: string): Promise<void> {
  await sql.query('DELETE FROM request_content WHERE customer_id = $1', [customerId])
  await sql.query('UPDATE idempotency SET answer_sealed = NULL WHERE customer_id = $1', [customerId])
}

/**
 * Deletes what was recorded of customers that were deleted in the last week: a batch that was being written while `deleteContents`
 * ran did not see the deletion, nor did that see the batch. Returns the number of requests.
 */
export async function deleteLateContents(sql: Sql): Promise<number> {
  const { rowCount } = await sql.query(
    `DELETE FROM request_content USING customer
      WHERE customer.customer_id = request_content.customer_id AND deleted_at > now() - interval '7 days'`,
  )
  return rowCount ?? 0
}
