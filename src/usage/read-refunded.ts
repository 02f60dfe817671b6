import type { Sql } from '../db/pool.ts'
import type { Nanos } from '../domain/money.ts'
import type { Period } from './period.ts'

/**
 * What came back for the requests that began in the period, whenever it came back: so it is never more than what they cost, and a report
 * of days that are over shows what they cost in the end.
 */
export async function readRefunded(sql: Sql, customerId: string, { fromIso, untilIso }: Period): Promise<Nanos> {
  const { rows } = await sql.query<{ refunded: Nanos }>(
    `SELECT coalesce(sum(amount_nanos), 0)::bigint AS refunded
       FROM refund WHERE customer_id = $1 AND started_at >= $2 AND started_at < $3`,
    [customerId, fromIso, untilIso],
  )
  return rows[0]!.refunded
}
