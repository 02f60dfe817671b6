import { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import { UUID } from '../../../base/runtime/uuid.ts'
import { type DaySpan, daySpan, daySpanQuery, utcDay } from '../day-span.ts'
import { reportProviders } from '../reports.ts'

/** What the rows of a report of usage over all customers stand for. */
export const usageDimensions = ['provider', 'server', 'model', 'customer', 'member', 'key', 'label'] as const
export type UsageDimension = (typeof usageDimensions)[number]

/** More series than a chart or a table can show are summed as "other". */
export const GROUPS_MAX = 100

const filterText = 'must be a text of at most 256 characters'

export const operatorUsageQuery = z.object({
  ...daySpanQuery.shape,
  by: z.enum(usageDimensions, `must be one of ${usageDimensions.join(', ')}`).default('model'),
  customer: z
    .string(filterText)
    .refine(text => UUID.test(text), 'must be the id of a customer')
    .optional(),
  model: z.string(filterText).max(256, filterText).optional(),
  provider: z.enum(reportProviders, `must be one of ${reportProviders.join(', ')}`).optional(),
})

/** A span of days, with what is counted. */
export interface UsageSpan extends DaySpan {
  readonly by: UsageDimension
  readonly customer: string | null
  readonly model: string | null
  readonly provider: string | null
}

/**
 * Fills in the defaults. Throws ApiError `invalid_value` for a span that is empty or longer than 366 days, and for
 * filters that the sums of keys, members and labels do not have.
 */
export function usageSpan(query: z.output<typeof operatorUsageQuery>, nowMs: number): UsageSpan {
  const { from, until } = daySpan(query, nowMs)
  const { by, customer = null, model = null, provider = null } = query
  if ((by === 'key' || by === 'member' || by === 'label') && (model !== null || provider !== null)) {
    throw new ApiError('invalid_value', {
      message:
        'The usage of keys, members and labels has no models and providers. Leave out `model` and `provider`, or use another `by`.',
      param: model === null ? 'provider' : 'model',
    })
  }
  if (by === 'server' && customer !== null) {
    throw new ApiError('invalid_value', {
      message: 'The usage of servers has no customers. Leave out `customer`, or use another `by`.',
      param: 'customer',
    })
  }
  return { from, until, by, customer, model, provider }
}

const figures = {
  requests: z.int(),
  charged_usd: z.number(),
}
const more = {
  failed: z.int().nullable().describe('Null by key, member, label and server: not counted.'),
  input_tokens: z.int().nullable(),
  output_tokens: z.int().nullable(),
  revenue_usd: z
    .number()
    .nullable()
    .describe(
      "Charges less the hosters' shares. Charges that gifts paid count too. Without a customer, a model and a provider, `total` and `days` are without refunds, on the day of each refund, and without audits; so are `groups` by customer.",
    ),
  upstream_cost_usd: z
    .number()
    .nullable()
    .describe(
      'What clouds and servers charged for it, as their cost was when each request was settled. `total` and `days` have what audits paid to hosters, where their revenue is without audits. Null by key, member and label.',
    ),
  margin_usd: z
    .number()
    .nullable()
    .describe(
      'Revenue whose cost is known, less what clouds and servers charged for it. Null where no revenue has a known cost, and by key, member and label.',
    ),
  unknown_cost_usd: z
    .number()
    .nullable()
    .describe('Of the revenue, what clouds without a known cost earned. The margin leaves it out.'),
  mean_latency_ms: z
    .number()
    .nullable()
    .describe(
      'Mean time to the last token of the requests that did not fail. Null without any, and by key, member, label and server.',
    ),
}

const sums = z.object({ ...figures, ...more })

export const operatorUsage = z
  .object({
    from: z.string(),
    until: z.string(),
    by: z.enum(usageDimensions),
    summed_at: z
      .string()
      .nullable()
      .describe(
        'When the sums over all customers were written, from which `total` and `days` come. Null if these are exact now.',
      ),
    total: sums,
    days: z.array(sums.extend({ day: z.string() })).describe('Days with requests or refunds, the oldest first.'),
    groups: z
      .array(
        sums.extend({
          id: z
            .string()
            .describe(
              'A provider, a server, a model, a label, or the id of a customer, person or key. `none`: keys that no person made. `(none)`: requests without a label. `(others)`: those with labels beyond the first 200 of a day.',
            ),
          name: z.string().describe('For people: the address of a customer or person, the name of a key.'),
          customer_id: z.string().nullable().describe('Of a customer or key; null for others.'),
        }),
      )
      .describe(
        'The highest charges first. By customer and without filters, the accounts that audit hosters are among `other`.',
      ),
    other: z
      .object({ ...figures, groups: z.int().describe('How many groups these are.') })
      .describe('The groups that are not listed.'),
  })
  .meta({ id: 'OperatorUsage' })
export type OperatorUsage = z.infer<typeof operatorUsage>

export const operatorUsageColumns = [
  'day',
  'id',
  'name',
  'customer_id',
  'requests',
  'failed',
  'input_tokens',
  'output_tokens',
  'charged_usd',
  'revenue_usd',
  'upstream_cost_usd',
  'margin_usd',
  'unknown_cost_usd',
] as const

const eventFormats = ['jsonl', 'parquet'] as const
export type UsageEventFormat = (typeof eventFormats)[number]
export const usageEventContentTypes: Readonly<Record<UsageEventFormat, string>> = {
  jsonl: 'application/x-ndjson',
  parquet: 'application/vnd.apache.parquet',
}

export const usageEventsQuery = z.object({
  from: utcDay.describe('The first UTC day.'),
  to: utcDay.optional().describe('The last UTC day, exclusive. Default: now.'),
  format: z
    .enum(eventFormats, `must be ${eventFormats.join(' or ')}`)
    .default('jsonl')
    .describe('JSON lines, or a Parquet file.'),
})

export interface UsageEventSpan {
  readonly fromMs: number
  /** Exclusive. */
  readonly untilMs: number
}

/** Fills in the default; no span ends after now. Throws ApiError `invalid_value` for one that is empty. */
export function usageEventSpan({ from, to }: z.output<typeof usageEventsQuery>, nowMs: number): UsageEventSpan {
  const fromMs = Date.parse(from)
  const untilMs = to === undefined ? nowMs : Math.min(Date.parse(to), nowMs)
  if (fromMs < untilMs) return { fromMs, untilMs }
  throw new ApiError('invalid_value', { message: '`from` must be before `to` and in the past.', param: 'from' })
}
