import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { object } from './console-body.ts'
import { readAmount } from './payments.ts'
import { parseStrictBody } from './strict-body.ts'

// Saved payment methods and automatic top-ups of a customer. Amounts are USD with at most 9 decimals.

export const autoTopUp = z
  .object({
    state: z
      .enum(['off', 'on', 'paused'])
      .describe('`paused` after a refused charge or a dispute, until a person turns it on again.'),
    method_id: z.string().nullable(),
    threshold_usd: z.number().nullable().describe('Below this balance, a top-up starts.'),
    amount_usd: z.number().nullable(),
    monthly_max_usd: z.number().nullable().describe('The most that is charged in a UTC month.'),
    charged_this_month_usd: z.number(),
    pause_reason: z.string().nullable(),
    consented_at: z.string().nullable(),
  })
  .meta({ id: 'AutoTopUp' })
export type AutoTopUpShown = z.infer<typeof autoTopUp>

export const paymentMethods = z
  .object({
    data: z.array(
      z.object({
        id: z.string(),
        driver: z.string(),
        brand: z.string(),
        last4: z.string(),
        expires: z.string().describe('Such as 04/2029.'),
        created_at: z.string(),
      }),
    ),
  })
  .meta({ id: 'PaymentMethods' })
export type PaymentMethods = z.infer<typeof paymentMethods>

const amount = z.union([z.number(), z.string()], { error: 'an amount of USD above zero' })
const request = z.strictObject(
  {
    method_id: z.string({ error: 'the id of a payment method' }),
    threshold_usd: amount,
    amount_usd: amount,
    monthly_max_usd: amount,
    consent: z.boolean({ error: 'true' }),
  },
  object,
)

/** Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault. */
export function parseAutoTopUp(body: Buffer): {
  methodId: string
  thresholdNanos: Nanos
  amountNanos: Nanos
  monthlyMaxNanos: Nanos
} {
  const { method_id, threshold_usd, amount_usd, monthly_max_usd, consent } = parseStrictBody(
    body,
    request,
    'an automatic top-up',
  )
  if (!consent) {
    throw new ApiError('invalid_value', {
      param: 'consent',
      message: 'Automatic top-ups need consent: without it, nothing is charged.',
    })
  }
  return {
    methodId: method_id,
    thresholdNanos: readAmount(threshold_usd, 'threshold_usd'),
    amountNanos: readAmount(amount_usd),
    monthlyMaxNanos: readAmount(monthly_max_usd, 'monthly_max_usd'),
  }
}
