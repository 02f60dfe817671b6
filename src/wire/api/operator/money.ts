import { z } from 'zod'

/** The answer of `GET /console/api/operator/money`. Amounts are USD with at most 9 decimals. */
export const operatorMoney = z
  .object({
    summed_at: z.string().nullable(),
    customer_credit_usd: z.number().describe('The sum of all balances.'),
    held_usd: z.number(),
    payable_usd: z.number().describe('What hosters have earned, less their parts of refunds.'),
    total: z
      .object({
        charged_usd: z.number(),
        revenue_usd: z.number(),
        granted_usd: z
          .number()
          .describe('Grants, and vouchers that nobody paid for, less what was taken back of these.'),
        signup_credit_usd: z.number(),
        refunded_usd: z.number(),
        written_off_usd: z.number(),
        paid_usd: z.number().describe('Payments and sold vouchers.'),
        reversed_usd: z.number().describe('Payments that were taken back, less those that returned.'),
      })
      .describe('All days.'),
    days: z
      .array(
        z.object({
          day: z.string(),
          charged_usd: z.number(),
          revenue_usd: z.number(),
          hoster_share_usd: z.number(),
          granted_usd: z.number(),
          signup_credit_usd: z.number(),
          refunded_usd: z.number(),
          written_off_usd: z.number(),
          paid_usd: z.number(),
          reversed_usd: z.number(),
        }),
      )
      .describe('The UTC days of the last 90 with a change of money, the newest first.'),
    last_audit: z
      .object({ at: z.string(), elapsed_ms: z.number(), violations: z.int() })
      .nullable()
      .describe('Null before the first audit of the ledger.'),
    waiting_grants: z.int(),
    alert_deliveries: z
      .object({ waiting: z.int(), failed: z.int() })
      .describe('Alerts of the last 7 days that were not delivered yet, and those that were given up.'),
  })
  .meta({ id: 'OperatorMoney' })
export type OperatorMoney = z.infer<typeof operatorMoney>
