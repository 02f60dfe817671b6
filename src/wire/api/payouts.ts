import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { type PayoutDriverName, payoutDriverNames } from '../../base/domain/money-drivers.ts'
import { PLAIN_TEXT } from '../../base/runtime/plain-text.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { object } from './console-body.ts'
import { cursorParameter } from './cursor.ts'
import { readAmount } from './payments.ts'
import { queryInteger } from './query-integer.ts'
import { parseStrictBody } from './strict-body.ts'
import { usdAmount } from './usd-amount.ts'

// How hosters are paid: the addresses under /v1/hoster and /console/api/hosters/{hoster_id}. Amounts are USD with at
// most 9 decimals.

export const payoutFields = {
  id: z.string(),
  driver: z.enum(payoutDriverNames).describe('`csv`: a bank transfer.'),
  state: z
    .enum(['prepared', 'approved', 'sending', 'paid', 'failed', 'returned', 'cancelled'])
    .describe('`failed`, `returned` and `cancelled` payouts are payable again.'),
  amount_usd: z.number(),
  paid_usd: z.number().describe('What has arrived and was not taken back.'),
  promotion_usd: z.number().describe('The part of the amount that promotion credit paid.'),
  account: z.string().describe('The last characters of the account.'),
  reference: z.string().describe('On the bank statement.'),
  failure: z.string().nullable(),
  created_at: z.string(),
  ended_at: z.string().nullable(),
}

export const hosterPayouts = z
  .object({
    object: z.literal('list'),
    data: z.array(z.object(payoutFields)).describe('The newest first.'),
    next_cursor: z.string().nullable(),
  })
  .meta({
    id: 'Payouts',
    example: {
      object: 'list',
      data: [
        {
          id: '5b0e7a1c-8f0d-4a34-9d7f-2f0f6f1d9c11',
          driver: 'csv',
          state: 'paid',
          amount_usd: 41.22,
          paid_usd: 41.22,
          promotion_usd: 0.8,
          account: '…3000',
          reference: 'PO-2F0F6F1D9C11',
          failure: null,
          created_at: '2026-11-25T09:00:00.000Z',
          ended_at: '2026-11-26T14:00:00.000Z',
        },
      ],
      next_cursor: null,
    },
  })
export type HosterPayouts = z.infer<typeof hosterPayouts>

/** The key of a cursor: the id of the last row of the page. */
export const payoutsCursor = /^[0-9a-f-]{36}$/

export const payoutsQuery = z.object({
  limit: queryInteger({ max: 100, example: 20 }).default(20),
  cursor: cursorParameter(payoutsCursor),
})

export const payoutChanges = z
  .array(
    z.object({
      id: z.string(),
      kind: z
        .enum(['account', 'customer'])
        .describe('`account`: where the hoster is paid. `customer`: the customer that may get earnings as credit.'),
      driver: z.enum(payoutDriverNames).nullable(),
      state: z.enum(['pending', 'ready', 'refused']).nullable().describe('Only a `ready` account takes effect.'),
      account: z.string().nullable().describe('The last characters.'),
      holder: z.string().nullable(),
      note: z.string().nullable().describe('What is missing.'),
      customer_id: z.string().nullable(),
      requested_by: z.string().nullable().describe('A member. Null: the operator, or the provider of the account.'),
      requested_at: z.string(),
      effective_at: z.string().describe('When it takes effect. Until then, nothing changes.'),
    }),
  )
  .describe('Changes that wait. Owners can stop them.')

export const payoutAccount = z
  .object({
    object: z.literal('payout_account'),
    driver: z.enum(payoutDriverNames).nullable().describe('Null: none is named yet.'),
    state: z
      .enum(['pending', 'ready', 'refused'])
      .nullable()
      .describe('`pending`: the provider still asks for something. `refused`: another hoster has this account.'),
    account: z.string().nullable().describe('The last characters.'),
    holder: z.string().nullable(),
    note: z.string().nullable().describe('What is missing.'),
    customer_id: z.string().nullable().describe('The customer that may get earnings as credit.'),
    changes: payoutChanges,
    drivers: z.array(z.enum(payoutDriverNames)).describe('How hosters are paid here.'),
  })
  .meta({
    id: 'PayoutAccount',
    example: {
      object: 'payout_account',
      driver: 'csv',
      state: 'ready',
      account: '…3000',
      holder: 'Acme GmbH',
      note: null,
      customer_id: null,
      changes: [],
      drivers: [...payoutDriverNames],
    },
  })
export type PayoutAccountShown = z.infer<typeof payoutAccount>

export const enrolledAccount = z
  .object({
    ...payoutAccount.shape,
    url: z.string().nullable().describe('Where the hoster goes on, for a short time.'),
  })
  .meta({ id: 'EnrolledAccount' })
export type EnrolledAccountShown = z.infer<typeof enrolledAccount>

export const movedEarnings = z
  .object({
    moved_usd: z.number(),
    customer_id: z.string(),
    is_repeat: z.boolean().describe('This id was moved before, and nothing changed.'),
  })
  .meta({
    id: 'MovedEarnings',
    example: { moved_usd: 10, customer_id: '0f1b54a4-6d0c-4d5a-8d57-0d6c2f5c1b77', is_repeat: false },
  })
export type MovedEarningsShown = z.infer<typeof movedEarnings>

const plainText = 'a text of 1 to 200 characters without control characters or text direction marks'
export const text = z
  .string({ error: plainText })
  .trim()
  .min(1, { error: plainText })
  .max(200, { error: plainText })
  .regex(PLAIN_TEXT, { error: plainText })
const idText = 'a UUID'
export const uuid = z.string({ error: idText }).regex(UUID, { error: idText })
export const amount = usdAmount('an amount of USD above zero with at most 9 decimals')
export const driverName = z.enum(payoutDriverNames, { error: `one of ${payoutDriverNames.join(', ')}` })

export const moveRequest = z.strictObject(
  {
    id: uuid.describe('Draw one for each move, and send it again after a failure: it is moved once.'),
    amount_usd: amount.optional().describe('Default: all of it, held earnings too.'),
  },
  object,
)
const enrolment = z.strictObject({ driver: driverName, holder: text.optional(), account: text.optional() }, object)
const link = z.strictObject({ customer_id: uuid }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.

export function parseMove(body: Buffer): { moveId: string; amountNanos: bigint | null } {
  const { id, amount_usd } = parseStrictBody(body, moveRequest, 'a move')
  return { moveId: id.toLowerCase(), amountNanos: amount_usd === undefined ? null : readAmount(amount_usd) }
}

export function parseEnrolment(body: Buffer): {
  driver: PayoutDriverName
  details: { holder: string; account: string } | null
} {
  const { driver, holder, account } = parseStrictBody(body, enrolment, 'a payout account')
  // A provider asks for the rest on its own pages.
  if (driver !== 'csv') return { driver, details: null }
  for (const [param, value] of Object.entries({ holder, account })) {
    if (value === undefined) throw new ApiError('missing_parameter', { message: `"${param}" is required.`, param })
  }
  return { driver, details: { holder: holder!, account: account! } }
}

export function parseLink(body: Buffer): { customerId: string } {
  return { customerId: parseStrictBody(body, link, 'a customer').customer_id.toLowerCase() }
}

/** Shows an account without most of its characters. */
export function hiddenAccount(account: string): string {
  return `…${account.slice(-4)}`
}
