import { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import { type PayoutDriverName, payoutDriverNames } from '../../../base/domain/money-drivers.ts'
import { object } from '../console-body.ts'
import { earningsFunds } from '../earnings.ts'
import { readAmount } from '../payments.ts'
import { amount, driverName, payoutChanges, payoutFields, text, uuid } from '../payouts.ts'
import { parseStrictBody } from '../strict-body.ts'

// Payouts of all hosters: the addresses under /console/api/operator. Amounts are USD with at most 9 decimals.

const batchFields = {
  id: z.string(),
  driver: z.enum(payoutDriverNames),
  state: z
    .enum(['prepared', 'approved', 'settled', 'cancelled'])
    .describe('`settled`: each payout has ended, and one of them was sent.'),
  payouts: z.int(),
  amount_usd: z.number(),
  paid_usd: z.number(),
  mismatches: z.int().describe('Payouts that their provider reports differently.'),
  prepared_by: z.string().nullable().describe('Null: the command line.'),
  prepared_at: z.string(),
  approved_by: z.string().nullable(),
  approved_at: z.string().nullable(),
}

export const payoutBatches = z
  .object({ data: z.array(z.object(batchFields)).describe('The newest first.'), next_cursor: z.string().nullable() })
  .meta({ id: 'PayoutBatches' })
export type PayoutBatches = z.infer<typeof payoutBatches>

const operatorPayout = z.object({
  ...payoutFields,
  account: z.string(),
  holder: z.string().nullable(),
  hoster_id: z.string(),
  hoster: z.string(),
  provider_ref: z.string().nullable(),
  mismatch: z.string().nullable().describe('How the report of the provider differs. Such a report is not booked.'),
})

const promotionReview = z.object({
  id: z.string(),
  hoster_id: z.string(),
  hoster: z.string(),
  share_usd: z.number().describe('What related customers paid with promotion credit, before the budget.'),
  evidence: z.array(
    z.object({
      customer_id: z.string(),
      email: z.string().nullable(),
      evidence: z
        .string()
        .describe(
          '`member`, `network`, `device`, `payment_method`, `earnings`, `circular` or `timing`: what relates them.',
        ),
      detail: z.string().nullable(),
    }),
  ),
  opened_at: z.string(),
  state: z.enum(['waiting', 'released', 'withheld']),
  reason: z.string().nullable(),
  decided_by: z.string().nullable().describe('Null with a decision: the command line.'),
  decided_at: z.string().nullable(),
})

export const promotionReviews = z
  .object({ data: z.array(promotionReview).describe('Those that wait first, at most 100.') })
  .meta({ id: 'PromotionReviews' })
export type PromotionReviewsShown = z.infer<typeof promotionReviews>

export const payoutBatch = z
  .object({
    ...batchFields,
    reviews: z.array(promotionReview).describe('Promotional earnings that keep the batch waiting.'),
    data: z.array(operatorPayout),
  })
  .meta({ id: 'PayoutBatch' })
export type PayoutBatchShown = z.infer<typeof payoutBatch>

export const preparedBatch = z
  .object({
    batch: payoutBatch.nullable().describe('Null: there was nothing to pay, and no batch was made.'),
    hosters: z.array(
      z.object({
        hoster_id: z.string(),
        hoster: z.string(),
        result: z.enum(['prepared', 'below_minimum', 'frozen', 'no_account', 'account_not_ready', 'other_driver']),
        amount_usd: z.number(),
        payable_usd: z.number().describe('Before the payout. Below zero for a debt.'),
      }),
    ),
  })
  .meta({ id: 'PreparedPayouts' })
export type PreparedBatchShown = z.infer<typeof preparedBatch>

export const approvedBatch = z
  .object({
    result: z
      .enum(['approved', 'approved_before', 'second_operator'])
      .describe('`second_operator`: another operator must approve it. Nothing was changed.'),
    batch: payoutBatch,
  })
  .meta({ id: 'ApprovedPayouts' })
export type ApprovedBatch = z.infer<typeof approvedBatch>

export const settledBatch = z
  .object({
    looked: z.int().describe('Payouts that the provider was asked for.'),
    booked: z.int(),
    mismatched: z.int(),
    failed: z.int().describe('Asked without an answer. Settle again.'),
    file: z.string().nullable().describe('The transfers for a bank, as CSV; null if a provider has them.'),
    batch: payoutBatch,
  })
  .meta({ id: 'SettledPayouts' })
export type SettledBatchShown = z.infer<typeof settledBatch>

export const hosterFunds = z
  .object({ data: z.array(z.object({ hoster_id: z.string(), hoster: z.string(), ...earningsFunds })) })
  .meta({ id: 'HosterFunds' })
export type HosterFundsShown = z.infer<typeof hosterFunds>

export const hosterMoney = z
  .object({
    hoster_id: z.string(),
    ...earningsFunds,
    payout_changes: payoutChanges,
    clawbacks: z
      .array(
        z.object({
          id: z.string(),
          cause: z.enum(['dispute', 'fraud']),
          amount_usd: z.number(),
          reason: z.string(),
          dispute_id: z.string().nullable(),
          made_by: z.string().nullable().describe('Null: the command line.'),
          at: z.string(),
          returned_at: z.string().nullable().describe('Null: it was not given back.'),
          return_reason: z.string().nullable(),
        }),
      )
      .describe('What was taken back from it, the newest first.'),
    disputes: z
      .array(
        z.object({
          id: z.string(),
          reference: z.string().describe('Of the payment.'),
          email: z.string().nullable().describe('Of the customer. Null for a deleted one.'),
          left_usd: z.number().describe('What the dispute took, less the claw-backs for it.'),
          reason: z.string(),
          at: z.string(),
        }),
      )
      .describe('Disputes of payments that hosters may be charged for, the newest 100.'),
  })
  .meta({ id: 'HosterMoney' })
export type HosterMoneyShown = z.infer<typeof hosterMoney>

export const clawedBack = z.object({ clawback_id: z.string(), is_repeat: z.boolean() }).meta({ id: 'ClawedBack' })
export type ClawedBack = z.infer<typeof clawedBack>

const boolean = z.boolean({ error: 'true or false' })
const order = z.strictObject({ driver: driverName.optional() }, object)
const outcome = z.strictObject({ is_paid: boolean, reason: text.optional() }, object)
const decision = z.strictObject({ reason: text }, object)
const clawback = z.strictObject(
  {
    id: uuid,
    amount_usd: amount,
    dispute_id: uuid.nullish(),
    reason: text,
  },
  object,
)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.

export function parsePrepare(body: Buffer): { driver: PayoutDriverName } {
  return { driver: parseStrictBody(body, order, 'a batch').driver ?? 'csv' }
}

/** @returns why the transfer failed; null if it arrived */
export function parseOutcome(body: Buffer): { failure: string | null } {
  const { is_paid, reason } = parseStrictBody(body, outcome, 'what became of a transfer')
  if (is_paid) return { failure: null }
  if (reason !== undefined) return { failure: reason }
  throw new ApiError('missing_parameter', {
    message: '"reason" is required for a transfer that failed.',
    param: 'reason',
  })
}

const reviewDecision = z.strictObject({ is_released: boolean, reason: text }, object)

/** What becomes of promotional earnings that related customers paid. */
export interface ReviewDecision {
  readonly isReleased: boolean
  readonly reason: string
}

export function parseReviewDecision(body: Buffer): ReviewDecision {
  const { is_released, reason } = parseStrictBody(body, reviewDecision, 'a decision')
  return { isReleased: is_released, reason }
}

/** Parses why an operator freezes or releases payouts, or reverses a claw-back. */
export function parseDecision(body: Buffer): { reason: string } {
  return parseStrictBody(body, decision, 'a decision')
}

export interface ClawBackRequest {
  /** Identifies the claw-back, so that a repeat takes nothing more. */
  readonly clawbackId: string
  readonly amountNanos: Nanos
  /** The dispute of a payment; null: proven fraud. */
  readonly reversalId: string | null
  readonly reason: string
}

export function parseClawback(body: Buffer): ClawBackRequest {
  const { id, amount_usd, dispute_id, reason } = parseStrictBody(body, clawback, 'a claw-back')
  return { clawbackId: id.toLowerCase(), amountNanos: readAmount(amount_usd), reversalId: dispute_id ?? null, reason }
}
