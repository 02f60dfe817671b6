import { z } from 'zod'
import { codedSentences } from './coded-sentences.ts'

// What hosters earned: the addresses under /v1/hoster and /console/api/hosters/{hoster_id}. Amounts are USD with at
// most 9 decimals.

export const earningsFunds = {
  balance_usd: z.number().describe('Earned and not paid out. Below zero, the hoster owes it.'),
  held_usd: z.number().describe('The part from requests that are too young to be paid out.'),
  held_until: z.string().nullable().describe('The UTC day on which all of it is payable.'),
  payable_usd: z.number().describe('The rest.'),
  promotion: z
    .object({
      share_usd: z.number().describe('The part of the balance that promotion credit paid. It cannot be moved.'),
      held_until: z.string().nullable().describe('The UTC day on which the budget has decided on all of it.'),
      day_budget_usd: z
        .number()
        .describe('The most that is paid of such earnings of one day. The rest goes back to the operator.'),
    })
    .describe('Promotion credit, such as signup credit, pays within a budget and is held longer.'),
  frozen_reason: z.string().nullable().describe('Why nothing is paid out; null if it is.'),
  frozen_reason_codes: codedSentences,
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
  kind: z.enum([
    'promotion_excess',
    'payout',
    'payout_returned',
    'earnings_moved',
    'clawback',
    'clawback_returned',
    'opening_balance',
  ]),
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
    promotion_days: z
      .array(
        z.object({
          day: z.string(),
          share_usd: z.number().describe('The part of the shares that promotion credit paid.'),
          paid_usd: z.number().nullable().describe('What the budget paid of it. Null: it is held.'),
        }),
      )
      .describe('Days with promotional earnings, the oldest first.'),
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
      promotion: { share_usd: 1.2, held_until: '2026-12-26', day_budget_usd: 1 },
      frozen_reason: null,
      frozen_reason_codes: [],
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
