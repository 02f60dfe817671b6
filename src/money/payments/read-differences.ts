import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'

/** A row of `payment_difference` that is open: see the migration of that table. */
export interface PaymentDifference {
  readonly driver: string
  readonly ref: string
  readonly kind: 'charge' | 'refund' | 'dispute' | 'credit'
  readonly problem: 'unknown_payment' | 'second_charge' | 'not_booked' | 'no_charge'
  readonly paymentId: string | null
  readonly amountMinor: bigint
  readonly currency: string
  readonly at: Date
}

/** Lists what providers and books do not agree on, the oldest first, at most 1,000. */
export async function listDifferences(sql: Sql): Promise<PaymentDifference[]> {
  const { rows } = await sql.query<PaymentDifference>(
    `SELECT driver, ref, kind, problem, payment_id AS "paymentId", amount_minor AS "amountMinor", currency, at
       FROM payment_difference WHERE ended_at IS NULL ORDER BY found_at, ref LIMIT 1000`,
  )
  return rows
}

/** Counts them. */
export async function countDifferences(sql: Sql): Promise<number> {
  const { count } = await queryRow<{ count: bigint }>(
    sql,
    'SELECT count(*) FROM payment_difference WHERE ended_at IS NULL',
  )
  return Number(count)
}
