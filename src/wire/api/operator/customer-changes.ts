import { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import { memberRoles } from '../../../base/domain/member-role.ts'
import { type Nanos, parseUsd } from '../../../base/domain/money.ts'
import { isEmail } from '../../../base/runtime/email.ts'
import { PLAIN_TEXT } from '../../../base/runtime/plain-text.ts'
import { readRequestId } from '../request-id.ts'
import { parseStrictBody } from '../strict-body.ts'
import { readUsdAmount } from '../usd-amount.ts'

// Bodies of the operator's changes. Each `error` text completes the sentence "`param` must be ...".

const object = { error: 'a JSON object' }
const email = z.string({ error: 'an e-mail address' }).trim().refine(isEmail, { error: 'an e-mail address' })
const plainText = 'a text of 1 to 200 characters without control characters or text direction marks'
const text = z
  .string({ error: plainText })
  .trim()
  .min(1, { error: plainText })
  .max(200, { error: plainText })
  .regex(PLAIN_TEXT, { error: plainText })
const tier = z.string({ error: 'the name of an account tier' })
const boolean = z.boolean({ error: 'true or false' })
const LIMIT_MAX = 999_999_999
const wholeLimit = `a whole number from 1 to ${LIMIT_MAX}, or null for the limit of the tier`
const limit = z
  .int({ error: wholeLimit })
  .min(1, { error: wholeLimit })
  .max(LIMIT_MAX, { error: wholeLimit })
  .nullable()
  .optional()
const amountText = 'an amount of USD above zero with at most 9 decimals, as a number or as decimal text'
const amount = z.union([z.number(), z.string()], { error: amountText })
const capText = 'an amount of USD with at most 9 decimals, or null for the cap of the tier'
const role = z.enum(memberRoles, { error: `one of ${memberRoles.join(', ')}` })

const newCustomer = z.strictObject({ email, tier: tier.optional() }, object)
const customerChange = z.strictObject(
  {
    tier: tier.optional(),
    paused: boolean.optional(),
    limits: z
      .strictObject(
        {
          requests_per_minute: limit,
          requests_per_day: limit,
          daily_spend_cap_usd: z.union([z.number(), z.string()], { error: capText }).nullable().optional(),
        },
        object,
      )
      .optional(),
  },
  object,
)
const grant = z.strictObject(
  { amount_usd: amount, reason: text, is_promotion: boolean, ref: text.nullish(), dry_run: boolean.optional() },
  object,
)
const invite = z.strictObject({ email, role: role.optional() }, object)
const refund = z.strictObject(
  {
    request_id: z.string({ error: 'the id of a request' }),
    amount_usd: amount.nullish(),
    reason: text,
    dry_run: boolean.optional(),
  },
  object,
)
const nothing = z.strictObject({}, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.

export function parseNewCustomer(body: Buffer): { email: string; tier: string | undefined } {
  const { email, tier } = parseStrictBody(body, newCustomer, 'a customer')
  return { email, tier }
}

/** Undefined: unchanged. Null: back to the limit of the tier. */
export interface CustomerChange {
  readonly tier?: string | undefined
  readonly isPaused?: boolean | undefined
  readonly requestsPerMinute?: number | null | undefined
  readonly requestsPerDay?: number | null | undefined
  readonly dailySpendCapNanos?: Nanos | null | undefined
}

export function parseCustomerChange(body: Buffer): CustomerChange {
  const { tier, paused, limits = {} } = parseStrictBody(body, customerChange, 'a change of a customer')
  const { requests_per_minute, requests_per_day, daily_spend_cap_usd: cap } = limits
  return {
    tier,
    isPaused: paused,
    requestsPerMinute: requests_per_minute,
    requestsPerDay: requests_per_day,
    dailySpendCapNanos: cap === undefined || cap === null ? cap : capNanos(cap),
  }
}

export interface GrantOrder {
  readonly amountNanos: Nanos
  readonly reason: string
  readonly ref: string | null
  /** Nobody paid for it. */
  readonly isPromotion: boolean
  readonly isDryRun: boolean
}

export function parseGrant(body: Buffer): GrantOrder {
  const { amount_usd, reason, is_promotion, ref = null, dry_run = false } = parseStrictBody(body, grant, 'a grant')
  return { amountNanos: amountNanos(amount_usd), reason, ref, isPromotion: is_promotion, isDryRun: dry_run }
}

export function parseInvite(body: Buffer): { email: string; role: (typeof memberRoles)[number] } {
  const { email, role = 'owner' } = parseStrictBody(body, invite, 'an invitation')
  return { email, role }
}

export interface RefundRequest {
  readonly requestId: string
  /** Null: the whole charge. */
  readonly amountNanos: Nanos | null
  readonly reason: string
  readonly isDryRun: boolean
}

/** Also throws `request_not_found` for what is no id of a request. */
export function parseRefund(body: Buffer): RefundRequest {
  const { request_id, amount_usd, reason, dry_run = false } = parseStrictBody(body, refund, 'a refund')
  const requestId = readRequestId(request_id)
  if (requestId === undefined) throw new ApiError('request_not_found')
  const isWhole = amount_usd === undefined || amount_usd === null
  return { requestId, amountNanos: isWhole ? null : amountNanos(amount_usd), reason, isDryRun: dry_run }
}

/** Throws unless the body is an empty object. */
export function parseNothing(body: Buffer): void {
  parseStrictBody(body, nothing, 'a decision')
}

function amountNanos(value: number | string): Nanos {
  const nanos = readUsdAmount(value)
  if (nanos !== undefined) return nanos
  throw new ApiError('invalid_value', { message: `"amount_usd" must be ${amountText}.`, param: 'amount_usd' })
}

function capNanos(value: number | string): Nanos {
  const nanos = parseUsd(String(value)) === 0n ? 0n : readUsdAmount(value)
  if (nanos !== undefined) return nanos
  throw new ApiError('invalid_value', {
    message: `"limits.daily_spend_cap_usd" must be ${capText}.`,
    param: 'limits.daily_spend_cap_usd',
  })
}
