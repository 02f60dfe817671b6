import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { providerKinds } from '../../base/domain/offer.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { queryInteger } from './query-integer.ts'

export const intervals = ['hour', 'day', 'week', 'month'] as const
export type Interval = (typeof intervals)[number]

/** The kind of provider that served a request. `none`: it was not served and cost nothing. */
export const reportProviders = [...providerKinds, 'none'] as const

const INTERVAL_ALLOWED = `must be one of ${intervals.join(', ')}`

const days = queryInteger({ max: 365, example: 30 })
  .default(30)
  .meta({
    description: 'Length of the period: the last N UTC days, including today. 1 to 365.',
    examples: [30],
  })

const interval = z
  .enum(intervals, INTERVAL_ALLOWED)
  .default('day')
  .meta({
    description: 'Width of each bucket, in UTC. Weeks begin on Monday, months on the 1st.',
    examples: ['day'],
  })

/** Query of `GET /v1/usage/breakdown`. */
export const daysQuery = z.object({ days })
/** Query of `GET /v1/usage/tokens`. */
export const tokenUsageQuery = z.object({ days, interval })

/**
 * Validates a parsed query string: one value per name, or an array for a name that was sent more than once.
 * Ignores unknown names. Throws ApiError `invalid_value` with the parameter, the allowed values and the value
 * sent, or `missing_parameter`.
 */
export function readQuery<S extends z.ZodObject>(schema: S, query: unknown): z.output<S> {
  // PostgreSQL stores no NUL, so no value can have one.
  const nul = Object.entries(query as Record<string, unknown>).find(
    ([name, value]) => name in schema.shape && typeof value === 'string' && value.includes('\0'),
  )
  if (nul !== undefined)
    throw new ApiError('invalid_value', { param: nul[0], message: `${nul[0]} must have no NUL characters.` })
  const parsed = schema.safeParse(query)
  if (parsed.success) return parsed.data
  const { path, message } = elementAt(parsed.error.issues, 0)
  const param = String(path[0])
  const sent = (query as Record<string, unknown>)[param]
  if (sent === undefined)
    throw new ApiError('missing_parameter', { param, message: `${param} is missing. It ${message}.` })
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
const requests = count.describe('Admitted requests, including those that failed.')
const inputTokens = count.describe('Billed input tokens.')
const outputTokens = count.describe('Billed output tokens.')
export const cachedTokens = count.describe(
  'Input tokens that the server read from its prompt cache; part of `input_tokens`.',
)
const totalTokens = count.describe('`input_tokens` + `output_tokens`.')
const costUsd = usdNumber.describe('Charges in USD: exact, with at most 9 decimals.')
const refundedUsd = usdNumber.describe(
  'Refunds for requests of this period in USD, whenever they were made. They do not lower the cost.',
)
const avgLatencyMs = z
  .number()
  .nonnegative()
  .describe('Mean time to the last byte of successful requests, in milliseconds; 0 if there were none.')

/** The answer of `GET /v1/usage`. */
export const usageSummary = z
  .object({
    customer: z.string().describe("The customer's e-mail address."),
    tier: z.string().describe('Account tier, which sets the limits.'),
    credit_balance_usd: z.number().describe('Remaining credit in USD, including money held for running requests.'),
    rate_limits: z.object({
      requests_this_minute: count.describe('Chat requests counted in the current UTC minute.'),
      requests_today: count.describe('Chat requests counted in the current UTC day.'),
      limit_per_minute: count.describe('Chat requests allowed in each UTC minute.'),
      limit_per_day: count.describe('Chat requests allowed in each UTC day.'),
      remaining_this_minute: count.describe('Chat requests left in the current UTC minute.'),
      remaining_today: count.describe('Chat requests left in the current UTC day.'),
    }),
    usage_30d: z
      .object({
        total_requests: requests,
        total_input_tokens: inputTokens,
        total_output_tokens: outputTokens,
        total_cost_microdollars: count.describe('Charges in millionths of a USD. The exact sum is rounded once.'),
        refunded_usd: refundedUsd,
        avg_latency_ms: avgLatencyMs,
      })
      .describe('The last 30 UTC days, including today.'),
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

/** The answer of `GET /v1/usage/tokens`. */
export const tokenUsage = z
  .object({
    period_days: count.describe('The `days` parameter.'),
    interval: z.enum(intervals).describe('The `interval` parameter.'),
    totals: z
      .object({
        input_tokens: inputTokens,
        output_tokens: outputTokens,
        total_tokens: totalTokens,
        cost_usd: costUsd,
        refunded_usd: refundedUsd,
        requests,
      })
      .describe('Exact sums of the buckets. Refunds are reported only here.'),
    timeseries: z
      .array(
        z.object({
          period: z.string().describe('Start of the bucket, ISO 8601 in UTC.'),
          input_tokens: inputTokens,
          output_tokens: outputTokens,
          total_tokens: totalTokens,
          cost_usd: costUsd,
          requests,
          local_requests: count.describe('Requests served by local servers.'),
          hoster_requests: count.describe('Requests served by hosters.'),
          cloud_requests: count.describe('Requests served by clouds.'),
          avg_latency_ms: avgLatencyMs,
        }),
      )
      .describe(
        'Every bucket of the period, oldest first, including empty ones. The first week or month may begin before the period, but counts only usage inside it.',
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

/** The answer of `GET /v1/usage/breakdown`. */
export const usageBreakdown = z
  .object({
    by_model: z
      .array(
        z.object({
          model_id: z.string().describe('Id of the model.'),
          provider: z
            .enum(reportProviders)
            .describe(
              'Kind of provider that served the requests; `none` for requests that were not served, which are free.',
            ),
          requests,
          input_tokens: inputTokens,
          output_tokens: outputTokens,
          cached_tokens: cachedTokens,
          total_cost_usd: usdNumber.describe('Charges in USD: exactly `platform_fee_usd` + `hoster_earned_usd`.'),
          platform_fee_usd: usdNumber.describe('Share of the platform, in USD.'),
          hoster_earned_usd: usdNumber.describe('Share of the hoster, in USD; 0 for local servers and clouds.'),
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
          cached_tokens: cachedTokens,
          cost_usd: costUsd,
          platform_fee_usd: usdNumber.describe('Share of the platform, in USD.'),
          hoster_earned_usd: usdNumber.describe('Share of the hosters, in USD.'),
        }),
      )
      .describe('Every day of the period, oldest first, including empty ones.'),
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
            cached_tokens: 960,
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
            cached_tokens: 960,
            cost_usd: 0.000262,
            platform_fee_usd: 0.0000524,
            hoster_earned_usd: 0.0002096,
          },
        ],
      },
    ],
  })
export type UsageBreakdown = z.infer<typeof usageBreakdown>

/** The columns of `GET /v1/usage/export`, in order. */
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
  'request_id',
  'outcome',
  'key_id',
  'key',
  'label',
  'member',
] as const
export type ExportColumn = (typeof exportColumns)[number]

/** The CSV of `GET /v1/usage/export`: a header row, then one row per admitted request. */
export const usageExportCsv = z.string().meta({
  description:
    'CSV (RFC 4180) with CRLF line ends and a header row, one row per admitted request, oldest first. `timestamp` is ISO 8601 in UTC with milliseconds, `cost_usd` an exact decimal, `success` true or false, `key` the name that the key of `key_id` has now, `member` the e-mail address of the person that made it. An apostrophe precedes a text that a spreadsheet would treat as a formula.',
  examples: [
    `${exportColumns.join(',')}\r\n2026-11-21T09:09:55.120Z,llama-3.3-70b,hoster,31,154,185,0.0000064,398,true,00000000-0000-7000-8000-000000000001,served,0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11,bot,support-bot,ada@example.com\r\n`,
  ],
})
