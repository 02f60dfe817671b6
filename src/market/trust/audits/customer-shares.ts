import type { Pool } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'

export type NoteCost = (nanos: Nanos | null) => void

/**
 * What the house pays a UTC day for requests that customers share. Without shares, one customer with long requests
 * would use up what there is for the audits of all hosters.
 */
export interface CustomerShares {
  /**
   * Sends a request that the house pays for a customer. Null: it was not sent, because the share of the customer or of
   * all is used up, or it may cost too much.
   *
   * @param mostNanos what it may cost. So much is reserved until `send` has ended
   * @param send calls `noteCost` with what it cost; with null if that is not known
   */
  pay<Answer>(
    customerId: string,
    mostNanos: Nanos,
    send: (noteCost: NoteCost) => Promise<Answer>,
  ): Promise<Answer | null>
  /** Whether one request may cost so much. */
  isAffordable(mostNanos: Nanos): boolean
  /** Reads which customers can pay for any request that is affordable. */
  whoCanPay(): Promise<(customerId: string) => boolean>
}

export interface SharesOptions {
  readonly pool: Pool
  readonly clock: Pick<Clock, 'epochMs'>
  readonly purpose: 'shadow' | 'replay'
  /** The credit of a day. */
  readonly dayNanos: Nanos
  /** What all customers together may use of it. */
  readonly togetherNanos: Nanos
}

/**
 * A customer may use this part of the day, as a region may of the signup credits, and one request this part of that.
 */
const [PER_CUSTOMER, PER_REQUEST] = [10n, 10n]

export function createCustomerShares(options: SharesOptions): CustomerShares {
  const { pool, clock, purpose, togetherNanos } = options
  const customerMax = options.dayNanos / PER_CUSTOMER
  const requestMax = customerMax / PER_REQUEST
  const today = () => new Date(clock.epochMs()).toISOString().slice(0, 10)

  /** False: the share is used up. */
  const reserve = async (day: string, customerId: string, nanos: Nanos) => {
    const { rowCount } = await pool.query(
      `INSERT INTO shared_request_spend AS s (day, purpose, customer_id, spent_nanos)
       SELECT $1, $2, $3, $4 WHERE $4::bigint + (SELECT coalesce(sum(spent_nanos), 0) FROM shared_request_spend WHERE day = $1 AND purpose = $2) <= $6
       ON CONFLICT (day, purpose, customer_id) DO UPDATE SET spent_nanos = s.spent_nanos + excluded.spent_nanos
        WHERE s.spent_nanos + excluded.spent_nanos <= $5`,
      [day, purpose, customerId, nanos, customerMax, togetherNanos],
    )
    return rowCount === 1
  }

  const giveBack = (day: string, customerId: string, nanos: Nanos) =>
    pool.query(
      `UPDATE shared_request_spend SET spent_nanos = greatest(0, spent_nanos - $4)
        WHERE day = $1 AND purpose = $2 AND customer_id = $3`,
      [day, purpose, customerId, nanos],
    )

  const isAffordable = (mostNanos: Nanos) => mostNanos <= requestMax
  return {
    isAffordable,
    async pay(customerId, mostNanos, send) {
      const day = today()
      if (!isAffordable(mostNanos) || !(await reserve(day, customerId, mostNanos))) return null
      let costNanos: Nanos | null = 0n
      try {
        return await send(nanos => {
          costNanos = nanos
        })
      } finally {
        if (costNanos !== null) await giveBack(day, customerId, mostNanos - costNanos)
      }
    },
    async whoCanPay() {
      const { rows } = await pool.query<{ customerId: string; spent: bigint }>(
        'SELECT customer_id AS "customerId", spent_nanos AS spent FROM shared_request_spend WHERE day = $1 AND purpose = $2',
        [today(), purpose],
      )
      const spent = new Map(rows.map(row => [row.customerId, row.spent]))
      const isLeft = [...spent.values()].reduce((sum, nanos) => sum + nanos, 0n) + requestMax <= togetherNanos
      return customerId => isLeft && (spent.get(customerId) ?? 0n) + requestMax <= customerMax
    },
  }
}
