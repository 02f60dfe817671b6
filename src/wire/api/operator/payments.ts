import { z } from 'zod'
import type { Nanos } from '../../../base/domain/money.ts'
import { paymentDriverNames } from '../../../base/domain/money-drivers.ts'
import { PLAIN_TEXT } from '../../../base/runtime/plain-text.ts'
import { object } from '../console-body.ts'
import { cursorParameter } from '../cursor.ts'
import { paymentStates, paymentsCursor, readAmount, topUp } from '../payments.ts'
import { queryInteger } from '../query-integer.ts'
import { parseStrictBody } from '../strict-body.ts'

// Payments of all customers and vouchers: the addresses under /console/api/operator. Amounts are USD with at most 9
// decimals.

export const operatorPayment = z
  .object({
    ...topUp.shape,
    customer_id: z.string(),
    email: z.string().nullable().describe('Null for a deleted customer.'),
    provider_ref: z.string().nullable().describe('How the provider names the payment.'),
    fee_usd: z.number().describe('The fees of the provider.'),
    mismatch: z
      .string()
      .nullable()
      .describe('How the report of the provider differs from this payment. Such a report is not booked.'),
    confirmed_by: z
      .string()
      .nullable()
      .describe('The operator who confirmed a manual payment, first of two if it is open.'),
  })
  .meta({ id: 'OperatorPayment' })
export type OperatorPayment = z.infer<typeof operatorPayment>

export const operatorPayments = z
  .object({ data: z.array(operatorPayment).describe('The newest first.'), next_cursor: z.string().nullable() })
  .meta({ id: 'OperatorPayments' })
export type OperatorPayments = z.infer<typeof operatorPayments>

export const paymentsQuery = z.object({
  customer: z.uuid('must be the id of a customer').optional(),
  state: z.enum(paymentStates, `must be one of ${paymentStates.join(', ')}`).optional(),
  driver: z.enum(paymentDriverNames, `must be one of ${paymentDriverNames.join(', ')}`).optional(),
  review: z
    .enum(['true'], 'must be true')
    .optional()
    .describe('Only payments that were taken back or that their provider reports differently.'),
  limit: queryInteger({ max: 100, example: 50 }).default(50),
  cursor: cursorParameter(paymentsCursor),
})
export type PaymentsQuery = z.output<typeof paymentsQuery>

export const confirmedPayment = z
  .object({
    result: z
      .enum(['paid', 'paid_before', 'waiting'])
      .describe('`waiting`: a second operator must confirm it as well.'),
    payment: operatorPayment,
  })
  .meta({ id: 'ConfirmedPayment' })
export type ConfirmedPayment = z.infer<typeof confirmedPayment>

export const reconciliation = z
  .object({
    looked: z.int().describe('Payments and events that the providers were asked for.'),
    booked: z.int(),
    mismatched: z.int(),
    failed: z.int().describe('Asked without an answer.'),
  })
  .meta({ id: 'Reconciliation' })
/** @public The console imports it. */
export type ReconciliationShown = z.infer<typeof reconciliation>

export const voucher = z
  .object({
    id: z.string(),
    hint: z.string().describe('The last five characters of the code.'),
    amount_usd: z.number(),
    note: z.string(),
    is_promotion: z.boolean().describe('Nobody paid for it, so its part of earnings of hosters has a budget.'),
    state: z.enum(['unused', 'redeemed', 'revoked', 'expired']),
    made_by: z.string().nullable().describe('Null: the command line.'),
    made_at: z.string(),
    expires_at: z.string(),
    redeemed_at: z.string().nullable(),
    customer_id: z.string().nullable().describe('The customer that redeemed it.'),
    email: z.string().nullable(),
  })
  .meta({ id: 'Voucher' })
/** @public The console imports it. */
export type VoucherShown = z.infer<typeof voucher>

export const voucherList = z
  .object({ data: z.array(voucher).describe('The newest first.'), next_cursor: z.string().nullable() })
  .meta({ id: 'Vouchers' })
export type VoucherList = z.infer<typeof voucherList>

export const madeVouchers = z
  .object({
    data: z.array(z.object({ id: z.string(), code: z.string(), amount_usd: z.number(), expires_at: z.string() })),
  })
  .meta({ id: 'MadeVouchers' })
export type MadeVouchers = z.infer<typeof madeVouchers>

export const vouchersQuery = z.object({
  limit: queryInteger({ max: 100, example: 50 }).default(50),
  cursor: cursorParameter(paymentsCursor),
})

const plainText = 'a text of 1 to 200 characters without control characters or text direction marks'
const text = z
  .string({ error: plainText })
  .trim()
  .min(1, { error: plainText })
  .max(200, { error: plainText })
  .regex(PLAIN_TEXT, { error: plainText })
const amount = z.union([z.number(), z.string()], { error: 'an amount of USD above zero with at most 9 decimals' })
const boolean = z.boolean({ error: 'true or false' })
const daysText = 'a whole number of days from 1 to 3650'
const countText = 'a whole number from 1 to 100'

const refund = z.strictObject({ amount_usd: amount.nullish(), reason: text, is_chargeback: boolean.optional() }, object)
const order = z.strictObject(
  {
    amount_usd: amount,
    count: z.int({ error: countText }).min(1, { error: countText }).max(100, { error: countText }).optional(),
    expires_in_days: z.int({ error: daysText }).min(1, { error: daysText }).max(3_650, { error: daysText }).optional(),
    note: text.optional(),
    is_promotion: boolean.optional(),
  },
  object,
)

export interface ReversalRequest {
  /** Null: all that is left of the payment. */
  readonly amountNanos: Nanos | null
  readonly reason: string
  readonly isChargeback: boolean
}

export function parseReversal(body: Buffer): ReversalRequest {
  const { amount_usd, reason, is_chargeback = false } = parseStrictBody(body, refund, 'a refund')
  const isWhole = amount_usd === undefined || amount_usd === null
  return { amountNanos: isWhole ? null : readAmount(amount_usd), reason, isChargeback: is_chargeback }
}

export interface VoucherOrder {
  readonly amountNanos: Nanos
  readonly count: number
  readonly expiresInDays: number
  readonly note: string
  /** Nobody pays for it. */
  readonly isPromotion: boolean
}

export function parseVoucherOrder(body: Buffer): VoucherOrder {
  const read = parseStrictBody(body, order, 'vouchers')
  // Most codes are handed out for free, and a forgotten mark must not become cash.
  const { amount_usd, count = 1, expires_in_days = 365, note = '', is_promotion = true } = read
  return { amountNanos: readAmount(amount_usd), count, expiresInDays: expires_in_days, note, isPromotion: is_promotion }
}
