import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { PaymentDriverName } from '../../base/domain/money-drivers.ts'

export type PaymentState = 'open' | 'processing' | 'paid' | 'failed' | 'expired' | 'cancelled'

/** A row of `payment`: see sql/migrations/0017_payments.sql. */
export interface Payment {
  readonly paymentId: string
  readonly customerId: string
  readonly email: string
  readonly driver: PaymentDriverName
  /** A provider reports this payment; people confirm and reverse the others. */
  readonly hasProvider: boolean
  /** False: of the test mode of its provider. */
  readonly isLive: boolean
  readonly purpose: 'top_up' | 'auto_top_up'
  readonly state: PaymentState
  readonly amountNanos: Nanos
  readonly reference: string
  readonly providerRef: string | null
  readonly redirectUrl: string | null
  readonly receiptUrl: string | null
  readonly invoiceUrl: string | null
  readonly failure: string | null
  readonly mismatch: string | null
  readonly confirmedBy: string | null
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly paidAt: Date | null
  readonly feeNanos: Nanos
  readonly method: { readonly brand: string; readonly last4: string } | null
  readonly reversals: readonly Reversal[]
}

export interface Reversal {
  readonly reversalId: string
  readonly kind: 'refund' | 'dispute'
  readonly state: 'asked' | 'done' | 'refused'
  /** Nanos as text, from JSON. */
  readonly taken: string
  readonly returned: string
  readonly reason: string
  readonly at: string
}

const COLUMNS = `
p.payment_id AS "paymentId", p.customer_id AS "customerId", c.email, p.driver, p.has_provider AS "hasProvider", p.purpose, p.state,
p.amount_nanos AS "amountNanos", p.reference, p.provider_ref AS "providerRef", p.redirect_url AS "redirectUrl", p.receipt_url AS "receiptUrl", p.invoice_url AS "invoiceUrl",
p.failure, p.mismatch, coalesce(by.email, p.confirmed_by::text) AS "confirmedBy", p.created_at AS "createdAt", p.expires_at AS "expiresAt",
p.paid_at AS "paidAt", p.is_live AS "isLive", p.fee_nanos AS "feeNanos",
(SELECT json_build_object('brand', m.brand, 'last4', m.last4) FROM payment_method m WHERE m.method_id = p.method_id) AS method,
coalesce((SELECT json_agg(json_build_object('reversalId', r.reversal_id, 'kind', r.kind, 'state', r.state, 'taken', r.taken_nanos::text,
    'returned', r.returned_nanos::text, 'reason', r.reason, 'at', r.at) ORDER BY r.at, r.reversal_id)
  FROM payment_reversal r WHERE r.payment_id = p.payment_id), '[]') AS reversals`

const FROM = `payment p JOIN customer c USING (customer_id) LEFT JOIN person by ON by.person_id = p.confirmed_by`

/** Finds a payment, of any customer or of one. */
export async function findPayment(
  sql: Sql,
  paymentId: string,
  customerId: string | null = null,
): Promise<Payment | undefined> {
  const { rows } = await sql.query<Payment>(
    `SELECT ${COLUMNS} FROM ${FROM} WHERE p.payment_id = $1 AND ($2::uuid IS NULL OR p.customer_id = $2)`,
    [paymentId, customerId],
  )
  return rows[0]
}

export interface PaymentsFilter {
  readonly customerId?: string | undefined
  readonly state?: PaymentState | undefined
  readonly driver?: Payment['driver'] | undefined
  /** Only payments that an operator must look at: reports that differ, and reversals. */
  readonly needsReview?: boolean | undefined
  readonly limit: number
  /** The last payment of the page before. */
  readonly after: string | null
}

/** Lists payments, the newest first. */
export async function listPayments(sql: Sql, filter: PaymentsFilter): Promise<Payment[]> {
  const { customerId = null, state = null, driver = null, needsReview = false, limit, after } = filter
  const { rows } = await sql.query<Payment>(
    `SELECT ${COLUMNS} FROM ${FROM}
      WHERE ($1::uuid IS NULL OR p.customer_id = $1) AND ($2::text IS NULL OR p.state = $2) AND ($3::text IS NULL OR p.driver = $3)
        AND (NOT $4 OR p.mismatch IS NOT NULL OR EXISTS (SELECT FROM payment_reversal r WHERE r.payment_id = p.payment_id))
        AND ($5::uuid IS NULL OR (p.created_at, p.payment_id) < (SELECT a.created_at, a.payment_id FROM payment a WHERE a.payment_id = $5))
      ORDER BY p.created_at DESC, p.payment_id DESC LIMIT $6`,
    [customerId, state, driver, needsReview, after, limit],
  )
  return rows
}
