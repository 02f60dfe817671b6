import { z } from 'zod'
import { ApiError } from '../domain/errors.ts'
import { providerKinds } from '../domain/offer.ts'
import { queryInteger } from './query-integer.ts'

export const intervals = ['hour', 'day', 'week', 'month'] as const
export type Interval = (typeof intervals)[number]

/** What served a request. `none`: nobody did, so it cost nothing. */
export const reportProviders = [...providerKinds, 'none'] as const

const INTERVAL_ALLOWED = `must be one of ${intervals.join(', ')}`

const days = queryInteger({ max: 365, example: 30 })
  .default(30)
  .meta({
    description: 'How far back to look: the last N UTC days, today included.',
    examples: [30],
  })

const interval = z
  .enum(intervals, INTERVAL_ALLOWED)
  .default('day')
  .meta({
    description:
      'Width of a bucket. Hours and days begin on the hour and at 00:00 UTC, weeks on Monday, months on the 1st.',
    examples: ['day'],
  })

/** Query of the breakdown and the export. */
export const daysQuery = z.object({ days })
/** Query of the token usage report. */
export const tokenUsageQuery = z.object({ days, interval })

/**
 * Reads a query string, as parsed into one value per name or an array for a name that was sent more than once.
 * Unknown names are ignored. Throws `invalid_value` naming the parameter, what it may be and what was sent.
 */
export function readQuery<S extends z.ZodObject>(schema: S, query: unknown): z.output<S> {
  const parsed = schema.safeParse(query)
  if (parsed.success) return parsed.data
  const { path, message } = parsed.error.issues[0]!
  const param = String(path[0])
  const sent = (query as Record<string, unknown>)[param]
  throw new ApiError('invalid_value', { param, message: `${param} ${message}. ${describe(sent)}` })
}

function describe(sent: unknown): string {
  if (Array.isArray(sent)) return `It was sent ${sent.length} times; send it once.`
  if (sent === '') return 'It was sent empty.'
  const text = JSON.stringify(sent)
  return `${text.length > 42 ? `${text.slice(0, 40)}..."` : text} was sent.`
}

const count = z.int().nonnegative()
const usdNumber = z.number().nonnegative()
const requests = count.describe('Admitted requests, also those that failed.')
const inputTokens = count.describe('Billed input tokens.')
const outputTokens = count.describe('Billed output tokens.')
const totalTokens = count.describe('input_tokens + output_tokens.')
const costUsd = usdNumber.describe('USD, at most 9 decimals, rounded nowhere.')
const refundedUsd = usdNumber.describe(
  'USD that came back for requests of this period, whenever that was. The cost is not lowered by it.',
)
const avgLatencyMs = z
  .number()
  .nonnegative()
  .describe('Mean time to the last byte over successful requests, milliseconds; 0 when there were none.')

/** `GET /v1/usage` */
export const usageSummary = z
  .object({
    customer: z.string().describe("The customer's e-mail address."),
    tier: z.string().describe('The account tier, which sets the limits.'),
    credit_balance_usd: z
      .number()
      .describe('Remaining credit, USD. Money held for running requests is still in it: a hold is not a charge.'),
    rate_limits: z.object({
      requests_this_minute: count.describe('Chat requests counted in the current UTC minute.'),
      requests_today: count.describe('Chat requests counted in the current UTC day.'),
      limit_per_minute: count,
      limit_per_day: count,
      remaining_this_minute: count,
      remaining_today: count,
    }),
    usage_30d: z
      .object({
        total_requests: requests,
        total_input_tokens: inputTokens,
        total_output_tokens: outputTokens,
        total_cost_microdollars: count.describe('Millionths of a USD, rounded once from the exact sum.'),
        refunded_usd: refundedUsd,
        avg_latency_ms: avgLatencyMs,
      })
      .describe('The last 30 UTC days, today included.'),
  })
  .meta({
    id: 'UsageSummary',
    examples: [
      {
        customer: 'ada@example.com',
        tier: 'free',
        credit_balance_usd: 4.999738,
        rate_limits: {
          requests_this_minute: 2,
          requests_today: 41,
          limit_per_minute: 20,
          limit_per_day: 1000,
          remaining_this_minute: 18,
          remaining_today: 959,
        },
        usage_30d: {
          total_requests: 41,
          total_input_tokens: 1240,
          total_output_tokens: 6310,
          total_cost_microdollars: 262,
          refunded_usd: 0,
          avg_latency_ms: 412.37,
        },
      },
    ],
  })
export type UsageSummary = z.infer<typeof usageSummary>

/** `GET /v1/usage/tokens` */
export const tokenUsage = z
  .object({
    period_days: count.describe('The days parameter.'),
    interval: z.enum(intervals).describe('The interval parameter.'),
    totals: z
      .object({
        input_tokens: inputTokens,
        output_tokens: outputTokens,
        total_tokens: totalTokens,
        cost_usd: costUsd,
        refunded_usd: refundedUsd,
        requests,
      })
      .describe('Exactly the sum of the buckets, which tell no refunds.'),
    timeseries: z
      .array(
        z.object({
          period: z.string().describe('Start of the bucket, ISO 8601 in UTC.'),
          input_tokens: inputTokens,
          output_tokens: outputTokens,
          total_tokens: totalTokens,
          cost_usd: costUsd,
          requests,
          local_requests: count.describe('Requests served locally.'),
          hoster_requests: count.describe('Requests served by hosters.'),
          cloud_requests: count.describe('Requests served by the cloud fallback.'),
          avg_latency_ms: avgLatencyMs,
        }),
      )
      .describe(
        'Every bucket of the period, oldest first, empty ones too. The first week or month may begin before the period; only usage inside the period counts.',
      ),
  })
  .meta({
    id: 'TokenUsageReport',
    examples: [
      {
        period_days: 1,
        interval: 'day',
        totals: {
          input_tokens: 1240,
          output_tokens: 6310,
          total_tokens: 7550,
          cost_usd: 0.000262,
          refunded_usd: 0,
          requests: 41,
        },
        timeseries: [
          {
            period: '2026-11-21T00:00:00+00:00',
            input_tokens: 1240,
            output_tokens: 6310,
            total_tokens: 7550,
            cost_usd: 0.000262,
            requests: 41,
            local_requests: 30,
            hoster_requests: 8,
            cloud_requests: 2,
            avg_latency_ms: 412.37,
          },
        ],
      },
    ],
  })
export type TokenUsageReport = z.infer<typeof tokenUsage>

/** `GET /v1/usage/breakdown` */
export const usageBreakdown = z
  .object({
    by_model: z
      .array(
        z.object({
          model_id: z.string(),
          provider: z
            .enum(reportProviders)
            .describe(
              'Kind of provider that served the requests; `none` for requests nobody could serve, which are free.',
            ),
          requests,
          input_tokens: inputTokens,
          output_tokens: outputTokens,
          total_cost_usd: usdNumber.describe('USD. Exactly platform_fee_usd + hoster_earned_usd.'),
          platform_fee_usd: usdNumber.describe("USD, the platform's share."),
          hoster_earned_usd: usdNumber.describe("USD, the hoster's share; 0 for local and cloud."),
          avg_latency_ms: avgLatencyMs,
        }),
      )
      .describe('Most expensive first.'),
    daily: z
      .array(
        z.object({
          date: z.string().describe('UTC day, YYYY-MM-DD.'),
          requests,
          input_tokens: inputTokens,
          output_tokens: outputTokens,
          total_tokens: totalTokens,
          cost_usd: costUsd,
          platform_fee_usd: usdNumber.describe("USD, the platform's share."),
          hoster_earned_usd: usdNumber.describe("USD, the hosters' share."),
        }),
      )
      .describe('Every day of the period, oldest first, empty ones too.'),
  })
  .meta({
    id: 'UsageBreakdown',
    examples: [
      {
        by_model: [
          {
            model_id: 'llama-3.3-70b',
            provider: 'hoster',
            requests: 41,
            input_tokens: 1240,
            output_tokens: 6310,
            total_cost_usd: 0.000262,
            platform_fee_usd: 0.0000524,
            hoster_earned_usd: 0.0002096,
            avg_latency_ms: 412.37,
          },
        ],
        daily: [
          {
            date: '2026-11-21',
            requests: 41,
            input_tokens: 1240,
            output_tokens: 6310,
            total_tokens: 7550,
            cost_usd: 0.000262,
            platform_fee_usd: 0.0000524,
            hoster_earned_usd: 0.0002096,
          },
        ],
      },
    ],
  })
export type UsageBreakdown = z.infer<typeof usageBreakdown>

/** `GET /v1/usage/export`: its columns, in their order. */
export const exportColumns = [
  'timestamp',
  'model',
  'provider',
  'input_tokens',
  'output_tokens',
  'total_tokens',
  'cost_usd',
  'latency_ms',
  'success',
] as const

/** The export as text: one row per admitted request under a header row. */
export const usageExportCsv = z.string().meta({
  description:
    'RFC 4180 with CRLF line ends and a header row, one row per admitted request, oldest first. timestamp is ISO 8601 in UTC with milliseconds, cost_usd an exact decimal, success true or false. A text cell that a spreadsheet would take for a formula begins with an apostrophe.',
  examples: [
    `${exportColumns.join(',')}\r\n2026-11-21T09:09:55.120Z,llama-3.3-70b,hoster,31,154,185,0.0000064,398,true\r\n`,
  ],
})
