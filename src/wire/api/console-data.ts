import { z } from 'zod'
import { limitResets } from '../../base/domain/caller.ts'
import { providerKinds } from '../../base/domain/offer.ts'
import { queryInteger } from './query-integer.ts'

/*
 * The answers of the console that no endpoint of /v1 has. docs/console-api.md describes the addresses. Amounts are USD,
 * exact, with at most 9 decimals. Times are ISO 8601 in UTC.
 */

const count = z.int().nonnegative()
const usdNumber = z.number().nonnegative()
const percentiles = z
  .object({ p50: count, p95: count })
  .nullable()
  .describe('Milliseconds over the successful requests; null if there were none.')

const latencyFigures = {
  requests: count,
  failed: count.describe('Requests that failed. A client that left did not fail.'),
  failure_share: z.number().min(0).max(1),
  first_token_ms: percentiles,
  total_ms: percentiles,
}

/** `GET C/latency`: the newest 1,000 requests. */
export const latencyReport = z.object({
  object: z.literal('latency'),
  since: z.string().nullable().describe('When the oldest of these requests began; null if there are none.'),
  ...latencyFigures,
  models: z.array(z.object({ model: z.string(), ...latencyFigures })).describe('Most requests first.'),
})
export type LatencyReport = z.infer<typeof latencyReport>

/** The widths of a bucket. There are no sums of keys and models by the hour. */
export const shareIntervals = ['day', 'week', 'month'] as const
export type ShareInterval = (typeof shareIntervals)[number]

const SERIES_MAX = 100

/** Query of `GET C/usage/keys`, `C/usage/members`, `C/usage/labels`, `C/usage/models` and `C/usage/providers`. */
export const sharesQuery = z.object({
  days: queryInteger({ max: 365, example: 30 }).default(30),
  interval: z.enum(shareIntervals, `must be one of ${shareIntervals.join(', ')}`).default('day'),
  series: queryInteger({ max: SERIES_MAX, example: 7 }).default(7),
})
export type SharesQuery = z.output<typeof sharesQuery>

const sums = { requests: count, cost_usd: usdNumber }
const tokenSums = {
  input_tokens: count.nullable().describe('Null for keys, members and labels.'),
  output_tokens: count.nullable().describe('Null for keys, members and labels.'),
}
const points = z
  .array(z.object({ period: z.string().describe('Start of the bucket.'), ...sums, ...tokenSums }))
  .describe('Every bucket of the period, oldest first, including empty ones.')

/** `GET C/usage/keys`, `C/usage/members`, `C/usage/labels`, `C/usage/models` and `C/usage/providers`. */
export const usageShares = z.object({
  object: z.literal('usage.shares'),
  by: z.enum(['key', 'member', 'label', 'model', 'provider']),
  period_days: count,
  interval: z.enum(shareIntervals),
  totals: z.object({ ...sums, ...tokenSums }),
  data: z
    .array(
      z.object({
        id: z
          .string()
          .describe(
            'UUID of the key or person, the label, id of the model, or kind of provider. `playground`: all keys of the playground. `none`: keys that no person made in the console. `(none)`: requests without a label; `(others)`: labels beyond the first 200 of a day.',
          ),
        name: z.string().nullable().describe('Name of the key, e-mail address of the person; null otherwise.'),
        hint: z.string().nullable().describe('First and last characters of the key; null otherwise.'),
        is_revoked: z.boolean(),
        ...sums,
        ...tokenSums,
        timeseries: points,
      }),
    )
    .describe('The most expensive ones, at most `series`.'),
  other: z
    .object({ count, ...sums, ...tokenSums, timeseries: points })
    .nullable()
    .describe('The sum of all others; null if there are none.'),
})
export type UsageShares = z.infer<typeof usageShares>

const window = z.object({
  used: count,
  limit: count,
  resets_at: z.string(),
})

/** `GET C/limits`. */
export const limitsReport = z.object({
  object: z.literal('limits'),
  minute: window.describe('Requests in this UTC minute.'),
  day: window.describe('Requests on this UTC day.'),
  spend: z.object({
    spent_usd: usdNumber.describe('Charges on this UTC day.'),
    held_usd: usdNumber.describe('Held for requests that run, and by nodes for the next ones.'),
    limit_usd: usdNumber,
    resets_at: z.string(),
  }),
  member: z
    .object({
      limit_usd: usdNumber,
      limit_reset: z.enum(limitResets),
      spent_usd: usdNumber.describe('Charges in the window of the limit.'),
      resets_at: z.string().nullable().describe('Null: never.'),
    })
    .nullable()
    .describe('What the person who asks may spend with all keys together; null without a limit.'),
})
export type LimitsReport = z.infer<typeof limitsReport>

/** `GET C/key-names`: what `GET C/keys` lists, without limits and spend. */
export const keyNames = z.object({
  object: z.literal('list'),
  data: z.array(z.object({ id: z.string(), name: z.string(), hint: z.string(), is_playground: z.boolean() })),
})
export type KeyNames = z.infer<typeof keyNames>

/** `GET C/model-facts`: what the servers of each model are like now. Prices and features are in `GET C/models`. */
export const modelFacts = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      id: z.string(),
      first_token_ms: count.nullable().describe('Expected at the fastest healthy server; null without measurements.'),
      is_available: z.boolean().describe('Whether at least one server takes requests.'),
      providers: z.array(
        z.object({
          kind: z.enum(providerKinds),
          servers: count,
          healthy: count.describe('Servers that take requests now.'),
          in_flight: count.describe('Requests that run there, sent by the node that answers.'),
          first_token_ms: count.nullable(),
          trust_score: z
            .number()
            .nullable()
            .describe('The best of the hosters, 0 to 1, as of an earlier day; null for other kinds.'),
          input_usd_per_million: usdNumber.describe('The lowest price.'),
          output_usd_per_million: usdNumber,
        }),
      ),
    }),
  ),
})
export type ModelFacts = z.infer<typeof modelFacts>
