import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import type { Nanos } from '../../../base/domain/money.ts'

/** A refund of one request. The amount is the sum of the hoster's part and the fee. */
export interface Refund {
  readonly amountNanos: Nanos
  /** Taken back from the hoster. */
  readonly hosterShareNanos: Nanos
  /** Given back by the platform. */
  readonly feeNanos: Nanos
  readonly reason: string
  readonly at: Date
}

export interface RefundOrder {
  readonly customerId: string
  readonly requestId: string
  /** More than zero. Null refunds the whole charge. */
  readonly amountNanos: Nanos | null
  /** Stored in the ledger and shown to the customer. */
  readonly reason: string
}

export type RefundResult =
  /**
   * `duplicate`: the same amount of this request was refunded before. Nothing changes, and `refund` is the earlier
   * refund.
   */
  | { readonly kind: 'refunded' | 'duplicate'; readonly refund: Refund; readonly chargedNanos: Nanos }
  /** Another amount of this request was refunded before. Nothing changes: a request is refunded once. */
  | { readonly kind: 'refunded_before'; readonly refund: Refund }
  | { readonly kind: 'above_charge'; readonly chargedNanos: Nanos }
  | { readonly kind: 'free' }
  /** The request is unknown, belongs to another customer, or is not settled yet. */
  | { readonly kind: 'no_request' }

/**
 * Refunds the charge of a settled request, or a part of it, once. The hoster and the platform give it back in
 * the proportion in which they earned it. A second call changes nothing. Throws RangeError for an amount that
 * is not positive. Works inside a transaction.
 */
export async function refundRequest(sql: Sql, order: RefundOrder): Promise<RefundResult> {
  const { customerId, requestId, amountNanos, reason } = order
  if (amountNanos !== null && amountNanos <= 0n) {
    throw new RangeError(`a refund must be more than zero, not ${amountNanos} nano-USD`)
  }
  const row = await queryRow<Row>(sql, 'SELECT * FROM refund_request($1, $2, $3, $4)', [
    customerId,
    requestId,
    amountNanos,
    reason,
  ])
  switch (row.verdict) {
    case 'refunded':
    case 'duplicate':
      return { kind: row.verdict, refund: refundOf(row), chargedNanos: row.charged }
    case 'refunded_before':
      return { kind: row.verdict, refund: refundOf(row) }
    case 'above_charge':
      return { kind: row.verdict, chargedNanos: row.charged }
    case 'free':
    case 'no_request':
      return { kind: row.verdict }
  }
}

interface Row {
  readonly verdict: RefundResult['kind']
  readonly charged: Nanos
  readonly amount: Nanos
  readonly hoster_share: Nanos
  readonly fee: Nanos
  readonly reason: string
  readonly at: Date
}

function refundOf({ amount, hoster_share, fee, reason, at }: Row): Refund {
  return { amountNanos: amount, hosterShareNanos: hoster_share, feeNanos: fee, reason, at }
}
