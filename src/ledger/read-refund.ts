import type { Sql } from '../db/pool.ts'
import type { Nanos } from '../domain/money.ts'

/** What was given back for one request. The amount is the hoster's part and the fee, exactly. */
export interface Refund {
  readonly amountNanos: Nanos
  /** Taken back from the hoster. */
  readonly hosterShareNanos: Nanos
  /** Given back by the platform. */
  readonly feeNanos: Nanos
  readonly reason: string
  readonly at: Date
}

/** The refund of a request; undefined when there is none, or when the request is not this customer's. */
export async function readRefund(sql: Sql, customerId: string, requestId: string): Promise<Refund | undefined> {
  const { rows } = await sql.query<Refund>(
    `SELECT amount_nanos AS "amountNanos", hoster_share_nanos AS "hosterShareNanos", fee_nanos AS "feeNanos", reason, at
       FROM refund WHERE customer_id = $1 AND request_id = $2`,
    [customerId, requestId],
  )
  return rows[0]
}
