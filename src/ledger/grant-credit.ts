import type { Queryable } from './queryable.ts'

export interface CreditGrant {
  readonly customerId: string
  /** More than zero. */
  readonly amountNanos: bigint
  /** What makes it happen once: a payment's id, an invoice number. Unique among all credits. */
  readonly ref: string
  readonly reason: string
}

export type CreditGrantResult =
  | { readonly kind: 'granted' | 'duplicate'; readonly postedNanos: bigint }
  /** The ref was used for another customer or amount. Nothing happened. */
  | { readonly kind: 'ref_taken' }
  | { readonly kind: 'no_account' }

/** Adds paid credit to a balance, once per ref. Throws RangeError for an amount that is not positive. Works inside a transaction. */
export async function grantCredit(db: Queryable, grant: CreditGrant): Promise<CreditGrantResult> {
  if (grant.amountNanos <= 0n)
    throw new RangeError(`a credit must be more than zero, not ${grant.amountNanos} nano-USD`)
  const { rows } = await db.query({
    text: 'SELECT * FROM grant_credit($1, $2, $3, $4)',
    rowMode: 'array',
    values: [grant.customerId, grant.amountNanos, grant.ref, grant.reason],
  })
  const row = rows[0] as [applied: boolean, mismatch: boolean, posted: string] | undefined
  if (row === undefined) return { kind: 'no_account' }
  const [applied, mismatch, posted] = row
  if (mismatch) return { kind: 'ref_taken' }
  return { kind: applied ? 'granted' : 'duplicate', postedNanos: BigInt(posted) }
}
