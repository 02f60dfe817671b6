import { z } from 'zod'
import { ApiError } from '../domain/errors.ts'

// What hosters earned: the addresses under /v1/hoster and /console/api/hosters/{hoster_id}. Amounts are USD with at most 9 decimals.

export const earningsFunds = {
  balance_usd: z.number().describe('Earned and not paid out. Below zero, the hoster owes it.'),
  held_usd: z.number().describe('The part from requests that are too young to be paid out.'),
  held_until: z.string().nullable().describe('The UTC day on which all of it is payable.'),
  payable_usd: z.number().describe('The rest.'),
  frozen_reason: z.string().nullable().describe('Why nothing is paid out; null if it is.'),
}

const line = z.object({
  day: z.string().describe('The UTC day on which the requests began.'),
  model: z.string(),
  requests: z.int(),
  input_tokens: z.int(),
  output_tokens: z.int(),
  gross_usd: z.number().describe('What customers were charged.'),
  share_usd: z.number(),
  fee_usd: z.number(),
  refunded_usd: z.number().describe('Given back to customers, whenever that was.'),
  refunded_share_usd: z.number().describe("The hoster's part of it."),
})

const movement = z.object({
  kind: z.enum(['payout', 'payout_returned', 'earnings_moved', 'clawback', 'clawback_returned']),
  amount_usd: z.number().describe('Above zero: to the hoster.'),
  at: z.string(),
  reason: z.string(),
})

export const earnings = z
  .object({
    object: z.literal('earnings'),
    ...earningsFunds,
    from: z.string(),
    until: z.string(),
    lines: z.array(line).describe('One for each day and model, the oldest first.'),
    movements: z.array(movement).describe('What else changed the balance on these days.'),
  })
  .meta({
    id: 'Earnings',
    example: {
      object: 'earnings',
      balance_usd: 53.226543,
      held_usd: 12,
      held_until: '2026-12-10',
      payable_usd: 41.226543,
      frozen_reason: null,
      from: '2026-11-25',
      until: '2026-11-25',
      lines: [
        {
          day: '2026-11-25',
          model: 'llama-3.3-70b',
          requests: 1_210,
          input_tokens: 402_000,
          output_tokens: 190_500,
          gross_usd: 15,
          share_usd: 12,
          fee_usd: 3,
          refunded_usd: 0,
          refunded_share_usd: 0,
        },
      ],
      movements: [],
    },
  })
export type Earnings = z.infer<typeof earnings>

export const earningsCsv = z.string().meta({
  example:
    'day,model,requests,input_tokens,output_tokens,gross_usd,share_usd,fee_usd,refunded_usd,refunded_share_usd\r\n2026-11-25,llama-3.3-70b,1210,402000,190500,15.00,12.00,3.00,0.00,0.00\r\n',
})

const DAY_MS = 86_400_000
const DAYS_MAX = 366
const dayText = 'must be a UTC day such as 2026-11-24'
const day = z
  .string(dayText)
  .regex(/^\d{4}-\d\d-\d\d$/, dayText)
  .refine(text => !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text), dayText)

export const earningsQuery = z.object({
  from: day.optional().describe('The first UTC day. Default: 29 days before `until`.'),
  until: day.optional().describe('The last UTC day. Default: today.'),
})

/** A span of UTC days, both included. */
export interface EarningsSpan {
  readonly from: string
  readonly until: string
}

/** Fills in the defaults. Throws ApiError `invalid_value` for a span that is empty or longer than 366 days. */
export function earningsSpan(query: z.output<typeof earningsQuery>, nowMs: number): EarningsSpan {
  const until = query.until ?? new Date(nowMs).toISOString().slice(0, 10)
  const from = query.from ?? new Date(Date.parse(until) - 29 * DAY_MS).toISOString().slice(0, 10)
  const days = (Date.parse(until) - Date.parse(from)) / DAY_MS + 1
  if (days >= 1 && days <= DAYS_MAX) return { from, until }
  throw new ApiError('invalid_value', {
    message: `The span must have 1 to ${DAYS_MAX} days, and \`from\` must not be after \`until\`.`,
    param: 'from',
  })
}
