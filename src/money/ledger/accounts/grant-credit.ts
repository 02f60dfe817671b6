import type { Sql } from '../../../base/db/pool.ts'

export interface CreditGrant {
  readonly customerId: string
  /** More than zero. */
  readonly amountNanos: bigint
  /**
   * Identifies the credit, so that it is granted once: a payment id or an invoice number. Unique among all
   * credits.
   */
  readonly ref: string
  readonly reason: string
  /** Nobody paid for it: it counts as the signup credit does. Default: false. */
  readonly isPromotion?: boolean
}

export type CreditGrantResult =
  | { readonly kind: 'granted' | 'duplicate'; readonly postedNanos: bigint }
  /** The ref was used for another customer or amount, or with another mark. Nothing was granted. */
  | { readonly kind: 'ref_taken' }
  | { readonly kind: 'no_account' }

/**
 * Adds credit to a balance, once per ref. Throws RangeError for an amount that is not positive. Can be
 * called inside a transaction.
 */
export async function grantCredit(db: Sql, grant: CreditGrant): Promise<CreditGrantResult> {
  if (grant.amountNanos <= 0n)
    throw new RangeError(`a credit must be more than zero, not ${grant.amountNanos} nano-USD`)
  const { rows } = await db.query<{ applied: boolean; mismatch: boolean; posted: bigint }>(
    'SELECT * FROM grant_credit($1, $2, $3, $4, $5)',
    [grant.customerId, grant.amountNanos, grant.ref, grant.reason, grant.isPromotion ?? false],
  )
  const row = rows[0]
  if (row === undefined) return { kind: 'no_account' }
  if (row.mismatch) return { kind: 'ref_taken' }
  return { kind: row.applied ? 'granted' : 'duplicate', postedNanos: row.posted }
}
