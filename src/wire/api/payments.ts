import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { paymentDriverNames, type TopUpDriverName, topUpDriverNames } from '../../base/domain/money-drivers.ts'
import { object } from './console-body.ts'
import { cursorParameter } from './cursor.ts'
import { queryInteger } from './query-integer.ts'
import { parseStrictBody } from './strict-body.ts'
import { readUsdAmount } from './usd-amount.ts'

// Payments of a customer: the addresses under /console/api/customers/{customer_id}. Amounts are USD with at most 9
// decimals.

export const paymentStates = ['open', 'processing', 'paid', 'failed', 'expired', 'cancelled'] as const

const reversal = z.object({
  id: z.string(),
  kind: z.enum(['refund', 'dispute']).describe('`dispute`: a chargeback, which the bank of the payer decides.'),
  state: z
    .enum(['asked', 'done', 'refused'])
    .describe('`asked`: the provider has not confirmed the refund. `refused`: it will not, and the credit is back.'),
  taken_usd: z.number(),
  returned_usd: z.number().describe('Given back, for example after a dispute that was won.'),
  reason: z.string(),
  at: z.string(),
})

const topUpFields = {
  id: z.string(),
  driver: z.enum(paymentDriverNames),
  purpose: z.enum(['top_up', 'auto_top_up']),
  state: z
    .enum(paymentStates)
    .describe('`open` waits for the payer, `processing` for the provider. Only `paid` has given credit.'),
  amount_usd: z.number().describe('The credit, without taxes and fees.'),
  reversed_usd: z.number().describe('Taken back and not returned.'),
  reference: z.string().describe('The code that the payer quotes.'),
  redirect_url: z.string().nullable().describe('Where the payer pays, while the top-up is open.'),
  instructions: z.string().nullable().describe('What the payer must do, while a manual top-up is open.'),
  method: z.object({ brand: z.string(), last4: z.string() }).nullable(),
  receipt_url: z.string().nullable(),
  invoice_url: z.string().nullable(),
  failure: z.string().nullable().describe('Why the payment failed.'),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  paid_at: z.string().nullable(),
  reversals: z.array(reversal),
}

export const topUp = z.object(topUpFields).meta({ id: 'TopUp' })
export type TopUp = z.infer<typeof topUp>

export const topUpList = z
  .object({ data: z.array(topUp).describe('The newest first.'), next_cursor: z.string().nullable() })
  .meta({ id: 'TopUps' })
export type TopUpList = z.infer<typeof topUpList>

/** The key of a cursor: the id of the last payment of the page. */
export const paymentsCursor = /^[0-9a-f-]{36}$/

export const topUpsQuery = z.object({
  limit: queryInteger({ max: 100, example: 20 }).default(20),
  cursor: cursorParameter(paymentsCursor),
})

export const paymentOptions = z
  .object({
    drivers: z.array(z.enum(paymentDriverNames)).describe('How credit can be bought. `voucher` is always there.'),
    min_usd: z.number(),
    max_usd: z.number(),
    debt_usd: z.number().describe('Owed for payments that were taken back. New credit pays it first.'),
    can_save_method: z.boolean().describe('A payment method can be kept for automatic top-ups.'),
  })
  .meta({ id: 'PaymentOptions' })
export type PaymentOptions = z.infer<typeof paymentOptions>

const amountText = 'an amount of USD above zero, as a number or as decimal text'
const topUpRequest = z.strictObject(
  {
    amount_usd: z.union([z.number(), z.string()], { error: amountText }),
    driver: z.enum(topUpDriverNames, { error: `one of ${topUpDriverNames.join(', ')}` }).optional(),
    save_method: z.boolean({ error: 'true or false' }).optional(),
  },
  object,
)
const codeText = 'the code of a voucher'
const redemption = z.strictObject({ code: z.string({ error: codeText }).max(100, { error: codeText }) }, object)
const nothing = z.strictObject({}, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.

export function parseTopUp(body: Buffer): {
  amountNanos: Nanos
  driver: TopUpDriverName | null
  savesMethod: boolean
} {
  const { amount_usd, driver = null, save_method = false } = parseStrictBody(body, topUpRequest, 'a top-up')
  return { amountNanos: readAmount(amount_usd), driver, savesMethod: save_method }
}

export function parseRedemption(body: Buffer): { code: string } {
  return parseStrictBody(body, redemption, 'a redemption')
}

export function parseEmpty(body: Buffer): void {
  parseStrictBody(body, nothing, 'this request')
}

export function readAmount(value: number | string, param = 'amount_usd'): Nanos {
  const nanos = readUsdAmount(value)
  if (nanos !== undefined) return nanos
  throw new ApiError('invalid_value', { message: `"${param}" must be ${amountText}.`, param })
}
