import { z } from 'zod'
import { serviceTiers } from '../domain/chat-job.ts'
import { clampReasons } from '../domain/handoff.ts'
import { readInstant } from '../runtime/instant.ts'
import { UUID } from '../runtime/uuid.ts'
import { cursorParameter, readCursor } from './cursor.ts'
import { queryInteger } from './query-integer.ts'
import { reportProviders } from './reports.ts'
import { serverFields } from './server-fields.ts'

const INSTANT_ALLOWED =
  'must be a UTC date such as 2026-11-21, or a time with its offset such as 2026-11-21T09:30:00Z (from 1970 on)'
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a model id must not contain
const modelId = /^[^\u0000-\u001f\u007f-\u009f]{1,256}$/
const isInstant = (text: string) => (readInstant(text) ?? -1) >= 0

/** Query of `GET /v1/usage/requests`. */
export const requestsQuery = z.object({
  limit: queryInteger({ max: 1000, example: 20 })
    .default(20)
    .meta({ description: 'How many requests a page holds at most.', examples: [20] }),
  cursor: cursorParameter(UUID),
  model: z
    .string('must be sent once')
    .regex(modelId, 'must be a model id of 1 to 256 characters')
    .optional()
    .meta({ description: 'Only requests that this model served, or that asked for it and were served by nobody.' }),
  key: z
    .string('must be sent once')
    .regex(UUID, 'must be the UUID of a key')
    .optional()
    .meta({ description: 'Only requests with the key of this id.' }),
  provider: z
    .enum(reportProviders, `must be one of ${reportProviders.join(', ')}`)
    .optional()
    .meta({ description: 'Only requests served by this kind of provider; `none` for those nobody served.' }),
  success: z
    .enum(['true', 'false'], 'must be true or false')
    .optional()
    .meta({ description: 'Only requests that succeeded, or only those that did not.' }),
  from: z
    .string('must be sent once')
    .refine(isInstant, INSTANT_ALLOWED)
    .optional()
    .meta({ description: 'Only requests that began then or later.', examples: ['2026-11-01'] }),
  to: z
    .string('must be sent once')
    .refine(isInstant, INSTANT_ALLOWED)
    .optional()
    .meta({ description: 'Only requests that began earlier.', examples: ['2026-11-21T09:30:00Z'] }),
})
export type RequestsQuery = z.infer<typeof requestsQuery>

/** The request that a page ended with, from the parsed cursor of a query. */
export function requestIdAt(cursor: string): string {
  return readCursor(cursor, UUID)!.toLowerCase()
}

const count = z.int().nonnegative()
const usdNumber = z.number().nonnegative()
const requestId = z.string().describe('The `x-request-id` of its answer.')
const startedAt = z.string().describe('ISO 8601 in UTC, with milliseconds.')
const provider = z.enum(reportProviders)
const finishReason = z.string().nullable().describe('As the answer gave it; null where it had none.')
const latencyMs = count.describe('Milliseconds from admission to the end.')
const firstTokenMs = count
  .nullable()
  .describe('Milliseconds from asking the server that answered to its first content.')
const success = z.boolean().describe('It was served to its end.')
const outcome = z
  .enum([
    'served',
    'client_gone',
    'refused_upstream',
    'unserved',
    'interrupted',
    'shutdown',
    'internal_error',
    'node_died',
    'superseded',
  ])
  .describe('How it ended; docs/money.md says what each ending costs.')

const listedRequest = z.object({
  id: requestId,
  started_at: startedAt,
  model: z.string().describe('The model that served, or the one asked for when nobody did.'),
  provider,
  hoster_id: serverFields.hoster_id,
  key_id: z.string().nullable().describe('UUID of the key it came with.'),
  input_tokens: count.describe('As billed.'),
  output_tokens: count.describe('As billed.'),
  total_tokens: count,
  cost_usd: usdNumber.describe('What was charged, USD with at most 9 decimals, rounded nowhere.'),
  latency_ms: latencyMs,
  first_token_ms: firstTokenMs,
  success,
  outcome,
  finish_reason: finishReason,
})
export type ListedRequest = z.infer<typeof listedRequest>

/** A page of `GET /v1/usage/requests`. */
export const requestPage = z
  .object({
    object: z.literal('list'),
    data: z.array(listedRequest).describe('Newest first.'),
    has_more: z.boolean().describe('There may be older ones: a filtered page looks through 10,000 requests at most.'),
    next_cursor: z.string().nullable().describe('Send it as `cursor` for the next page; null on the last one.'),
  })
  .meta({
    id: 'RequestPage',
    examples: [
      {
        object: 'list',
        data: [
          {
            id: '00000000-0000-7000-8000-000000000001',
            started_at: '2026-11-21T09:42:50.203Z',
            model: 'demo',
            provider: 'local',
            hoster_id: null,
            key_id: '00000000-0000-7000-8000-00000000000a',
            input_tokens: 9,
            output_tokens: 110,
            total_tokens: 119,
            cost_usd: 0.0000449,
            latency_ms: 2957,
            first_token_ms: 212,
            success: true,
            outcome: 'served',
            finish_reason: 'stop',
          },
        ],
        has_more: false,
        next_cursor: null,
      },
    ],
  })
export type RequestPage = z.infer<typeof requestPage>

/** Why an offer was to be tried later than the first one. */
export const lowerRankReasons = [
  'later_model',
  'cloud_comes_last',
  'recent_failures',
  'prompt_cache_elsewhere',
  'more_expensive',
  'slower',
  'slower_or_busier',
  'drawn_later',
] as const
export type LowerRankReason = (typeof lowerRankReasons)[number]

const server = { model: z.string(), ...serverFields }
const tokens = (what: string) =>
  z.object({ input: count.nullable(), output: count.nullable() }).describe(`${what}; null where there is no figure.`)

const entries = z
  .array(
    z.object({
      account_kind: z.enum(['customer', 'hoster_payable', 'platform_revenue']),
      account_id: z.string().nullable().describe("UUID of the customer or hoster; null for the platform's."),
      amount_usd: z.number(),
    }),
  )
  .describe('Sum to zero.')

/** `GET /v1/usage/requests/{id}`. */
export const requestReceipt = z
  .object({
    object: z.literal('usage.receipt'),
    id: requestId,
    started_at: startedAt,
    key: z
      .object({
        id: z.string(),
        name: z.string().nullable(),
        hint: z.string().nullable().describe('Its prefix and last four characters.'),
      })
      .nullable(),
    model: z.string().describe('The model that served, or the one asked for when nobody did.'),
    requested_model: z.string().describe('The model asked for, which may be `auto`.'),
    success,
    outcome,
    finish_reason: finishReason,
    client_disconnected: z.boolean().describe('The client left before the end.'),
    latency_ms: latencyMs,
    first_token_ms: firstTokenMs,
    served_by: z.object(serverFields).nullable().describe('Null when nobody served it.'),
    price: z
      .object({
        version: z.int().nullable().describe("Version in the hoster's price list; null for prices of the operator."),
        input_usd_per_million: usdNumber,
        output_usd_per_million: usdNumber,
      })
      .describe('As of admission.'),
    tokens: z.object({
      source: z
        .enum(['upstream', 'gateway', 'none'])
        .describe('Whose figures are billed: the report of the server, or the count of the gateway.'),
      billed: z.object({ input: count, output: count }),
      counted: tokens('By the gateway, where it had to count'),
      reported: tokens('By the server that answered'),
    }),
    hold_usd: usdNumber.describe('The most it could have cost, held before it was sent.'),
    cost_usd: usdNumber.describe('What was charged: exactly platform_fee_usd + hoster_share_usd.'),
    platform_fee_usd: usdNumber,
    hoster_share_usd: usdNumber,
    written_off_usd: usdNumber.describe('Measured beyond the hold or beyond a lease that was gone; nobody pays it.'),
    ledger: z
      .object({
        transaction: z.string(),
        at: startedAt,
        entries,
      })
      .nullable()
      .describe("This request's part of the transaction that settled it; sums to zero. Null when it was free."),
    refunds: z
      .array(z.object({ transaction: z.string(), at: startedAt, reason: z.string(), amount_usd: usdNumber, entries }))
      .describe('What came back later; cost_usd stays what was charged.'),
    policy: z
      .object({
        tier: z.enum(serviceTiers),
        privacy_mode: z.boolean(),
        trusted_only: z.boolean(),
        max_latency_ms: z.int().nullable(),
        fallback_models: z.array(z.string()),
        allow_hosters: z.array(z.string()).nullable(),
        deny_hosters: z.array(z.string()),
        max_cost_usd: usdNumber.nullable(),
      })
      .describe('The routing fields it was sent with, and which were enforced.'),
    max_tokens_clamp: z
      .object({
        asked: z.int().nullable().describe('Null: none, so the default.'),
        allowed: z.int(),
        by: z.enum(clampReasons),
      })
      .nullable()
      .describe('What lowered max_tokens; null when nothing did.'),
    attempts: z
      .array(z.object({ ...server, outcome: z.string(), elapsed_ms: count }))
      .describe('Each try at a server, in order.'),
    candidates: z
      .array(
        z.object({
          ...server,
          status: z.enum(['answered', 'failed', 'not_tried', 'excluded']),
          reason: z
            .string()
            .nullable()
            .describe(
              'Why it failed, was excluded, or was ranked below the first; null where there is nothing to explain.',
            ),
          rank: z.int().positive().nullable(),
          expected_cost_usd: usdNumber.nullable(),
          predicted_ms: count.nullable(),
          trust_score: z.number().nullable(),
          in_flight: count.nullable(),
        }),
      )
      .describe('In the order they were to be tried, then those that were excluded.'),
    candidates_left_out: count.describe('How many more candidates there were.'),
  })
  .meta({
    id: 'RequestReceipt',
    examples: [
      {
        object: 'usage.receipt',
        id: '00000000-0000-7000-8000-000000000001',
        started_at: '2026-11-21T16:14:41.680Z',
        key: { id: '00000000-0000-4000-8000-00000000000a', name: 'first key', hint: 'sk-sy-1R1S…JAkC' },
        model: 'demo',
        requested_model: 'qwen3-8b',
        success: true,
        outcome: 'served',
        finish_reason: 'length',
        client_disconnected: false,
        latency_ms: 1162,
        first_token_ms: 1154,
        served_by: { provider: 'local', endpoint: 'demo', hoster_id: null, hoster_name: null },
        price: { version: null, input_usd_per_million: 0.1, output_usd_per_million: 0.4 },
        tokens: {
          source: 'upstream',
          billed: { input: 9, output: 40 },
          counted: { input: null, output: null },
          reported: { input: 9, output: 40 },
        },
        hold_usd: 0.0000246,
        cost_usd: 0.0000169,
        platform_fee_usd: 0.0000169,
        hoster_share_usd: 0,
        written_off_usd: 0,
        ledger: {
          transaction: '4',
          at: '2026-11-21T16:14:42.893Z',
          entries: [
            { account_kind: 'customer', account_id: '00000000-0000-4000-8000-00000000000c', amount_usd: -0.0000169 },
            { account_kind: 'platform_revenue', account_id: null, amount_usd: 0.0000169 },
          ],
        },
        refunds: [],
        policy: {
          tier: 'cheapest',
          privacy_mode: true,
          trusted_only: false,
          max_latency_ms: null,
          fallback_models: ['demo'],
          allow_hosters: null,
          deny_hosters: [],
          max_cost_usd: null,
        },
        max_tokens_clamp: null,
        attempts: [
          {
            model: 'qwen3-8b',
            provider: 'local',
            endpoint: 'gpu-1',
            hoster_id: null,
            hoster_name: null,
            outcome: 'connect_failed',
            elapsed_ms: 2,
          },
          {
            model: 'demo',
            provider: 'local',
            endpoint: 'demo',
            hoster_id: null,
            hoster_name: null,
            outcome: 'answered',
            elapsed_ms: 1154,
          },
        ],
        candidates: [
          {
            model: 'qwen3-8b',
            provider: 'local',
            endpoint: 'gpu-1',
            hoster_id: null,
            hoster_name: null,
            status: 'failed',
            reason: 'connect_failed',
            rank: 1,
            expected_cost_usd: 0.0000091,
            predicted_ms: null,
            trust_score: null,
            in_flight: 0,
          },
          {
            model: 'demo',
            provider: 'local',
            endpoint: 'demo',
            hoster_id: null,
            hoster_name: null,
            status: 'answered',
            reason: null,
            rank: 2,
            expected_cost_usd: 0.0000182,
            predicted_ms: null,
            trust_score: null,
            in_flight: 0,
          },
          {
            model: 'qwen3-8b',
            provider: 'cloud',
            endpoint: 'some-cloud',
            hoster_id: null,
            hoster_name: null,
            status: 'excluded',
            reason: 'privacy_mode',
            rank: null,
            expected_cost_usd: null,
            predicted_ms: null,
            trust_score: null,
            in_flight: null,
          },
        ],
        candidates_left_out: 0,
      },
    ],
  })
export type RequestReceipt = z.infer<typeof requestReceipt>
