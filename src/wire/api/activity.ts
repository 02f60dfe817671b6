import { z } from 'zod'
import { constraintNames, constraintSources, serviceTiers } from '../../base/domain/chat-job.ts'
import { clampReasons } from '../../base/domain/handoff.ts'
import { readInstant } from '../../base/runtime/instant.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { autoNoteSchema } from './auto-note.ts'
import { serverFields } from './chat-quote-schema.ts'
import { cursorParameter, keyOfCursor } from './cursor.ts'
import { LABEL, labelMeaning } from './label.ts'
import { partPriceFields, priceFields } from './price-fields.ts'
import { queryInteger } from './query-integer.ts'
import { cachedTokens, reportProviders } from './reports.ts'

const INSTANT_ALLOWED =
  'must be a UTC date such as 2026-11-21, or a time with its offset such as 2026-11-21T09:30:00Z (from 1970 on)'
// biome-ignore lint/suspicious/noControlCharactersInRegex: a model id must not contain them
const modelId = /^[^\u0000-\u001f\u007f-\u009f]{1,256}$/
const isInstant = (text: string) => (readInstant(text) ?? -1) >= 0

/** How requests end. */
export const outcomes = [
  'served',
  'client_gone',
  'refused_upstream',
  'unserved',
  'interrupted',
  'shutdown',
  'internal_error',
  'node_died',
  'superseded',
] as const

/** Query of `GET /v1/usage/requests`. */
export const requestsQuery = z.object({
  limit: queryInteger({ max: 1000, example: 20 })
    .default(20)
    .meta({ description: 'Maximum number of requests per page, 1 to 1000.', examples: [20] }),
  cursor: cursorParameter(UUID),
  model: z
    .string('must be sent once')
    .regex(modelId, 'must be a model id of 1 to 256 characters')
    .optional()
    .meta({ description: 'Only requests that this model served, or that requested it and were not served.' }),
  key: z
    .string('must be sent once')
    .regex(UUID, 'must be the UUID of a key')
    .optional()
    .meta({ description: 'Only requests sent with the key of this UUID.' }),
  provider: z
    .enum(reportProviders, `must be one of ${reportProviders.join(', ')}`)
    .optional()
    .meta({ description: 'Only requests served by this kind of provider; `none` for requests that were not served.' }),
  success: z
    .enum(['true', 'false'], 'must be true or false')
    .optional()
    .meta({ description: '`true` for requests that succeeded, `false` for those that did not.' }),
  outcome: z
    .enum(outcomes, `must be one of ${outcomes.join(', ')}`)
    .optional()
    .meta({ description: 'Only requests that ended this way.' }),
  label: z
    .string('must be sent once')
    .regex(LABEL, `must be ${labelMeaning}`)
    .optional()
    .meta({ description: 'Only requests with this label.' }),
  from: z
    .string('must be sent once')
    .refine(isInstant, INSTANT_ALLOWED)
    .optional()
    .meta({ description: 'Only requests that began at this time or later.', examples: ['2026-11-01'] }),
  to: z
    .string('must be sent once')
    .refine(isInstant, INSTANT_ALLOWED)
    .optional()
    .meta({ description: 'Only requests that began before this time.', examples: ['2026-11-21T09:30:00Z'] }),
})
export type RequestsQuery = z.infer<typeof requestsQuery>

/** Query of `GET /v1/usage/export`: the filters of the list, and a period in days. */
export const exportQuery = z.object({
  days: queryInteger({ max: 365, example: 30 })
    .optional()
    .meta({
      description: 'Length of the period: the last N UTC days, including today. 1 to 365. Not with `from` or `to`.',
      examples: [30],
      // Not a default of the parser, which must tell it from a given one.
      default: 30,
    }),
  ...requestsQuery.omit({ limit: true, cursor: true }).shape,
})
export type ExportQuery = z.infer<typeof exportQuery>

/** Returns the id of the last request of the previous page from the parsed cursor of a query; null for the first. */
export function requestIdAt(cursor: string | undefined): string | null {
  return keyOfCursor(cursor, UUID)?.toLowerCase() ?? null
}

const count = z.int().nonnegative()
const usdNumber = z.number().nonnegative()
const requestId = z.string().describe('The `x-request-id` of the answer.')
const instant = z.string().describe('ISO 8601 in UTC, with milliseconds.')
const startedAt = z.string().describe('When the request was admitted, ISO 8601 in UTC, with milliseconds.')
const provider = z.enum(reportProviders)
const finishReason = z.string().nullable().describe('`finish_reason` of the answer; null if it had none.')
const latencyMs = count.describe('Milliseconds from admission to the end of the request.')
const firstTokenMs = count
  .nullable()
  .describe(
    'Milliseconds from sending the request to the server that answered until its first content; null if none answered.',
  )
const success = z
  .boolean()
  .describe(
    'True if the request was served to its end, or charged: a client that left a stream pays for what it got. False requests cost nothing.',
  )
const outcome = z
  .enum(outcomes)
  .describe('How the request ended. The table of what is billed (docs/money.md) has the cost of each outcome.')

const requestLabel = z
  .string()
  .nullable()
  .describe('The label of the header `x-switchyard-label`, or of the key; null if the request has none.')

const listedRequest = z.object({
  id: requestId,
  started_at: startedAt,
  model: z.string().describe('The model that served the request, or the requested one if it was not served.'),
  provider,
  hoster_id: serverFields.hoster_id,
  key_id: z.string().nullable().describe('UUID of the key that sent the request.'),
  label: requestLabel,
  input_tokens: count.describe('Billed input tokens.'),
  output_tokens: count.describe('Billed output tokens.'),
  total_tokens: count.describe('`input_tokens` + `output_tokens`.'),
  cached_tokens: cachedTokens,
  cost_usd: usdNumber.describe('Charge for the request in USD: exact, with at most 9 decimals.'),
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
    has_more: z
      .boolean()
      .describe(
        'True if there may be older requests. A page with filters searches at most 10,000 requests, so it may be empty and still have more.',
      ),
    next_cursor: z.string().nullable().describe('Send it as `cursor` to get the next page; null on the last page.'),
    looked_back_to: z
      .string()
      .nullable()
      .describe(
        'ISO 8601 in UTC. The search of a page with filters ended at this time; `next_cursor` goes on from there. Null if the page is full, or the search complete.',
      ),
    archived_before: z
      .string()
      .nullable()
      .describe(
        'ISO 8601 in UTC. Requests between `from` and `to` that began before this time are archived: the list does not have them, reports do. Null if there are none.',
      ),
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
            label: null,
            input_tokens: 9,
            output_tokens: 110,
            total_tokens: 119,
            cached_tokens: 0,
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
        looked_back_to: null,
        archived_before: null,
      },
    ],
  })
export type RequestPage = z.infer<typeof requestPage>

/** Why an offer was ranked below the first one. */
export const lowerRankReasons = [
  'later_model',
  'other_model',
  'newcomer',
  'shorter_output',
  'cloud_comes_last',
  'recent_failures',
  'held_back',
  'prompt_cache_elsewhere',
  'more_expensive',
  'slower',
  'slower_or_busier',
  'drawn_later',
] as const
export type LowerRankReason = (typeof lowerRankReasons)[number]

const server = { model: z.string().describe('Id of the model.'), ...serverFields }
const tokens = (source: string) =>
  z.object({ input: count.nullable(), output: count.nullable() }).describe(`${source}; null if unknown.`)

/** The answer of `GET /v1/usage/requests/{id}/content`. */
export const requestContent = z
  .object({
    object: z.literal('usage.content'),
    id: requestId,
    messages: z
      .array(z.object({ role: z.string(), text: z.string() }))
      .describe('The prompt. Pictures, sounds and files are named only. Of a long one, the last messages.'),
    answer: z.string().describe('The generated text: reasoning, content, and calls of tools.'),
    redactions: count.describe('How many credentials and pieces of personal data were taken out.'),
    is_cut: z.boolean().describe('Whether something was left out because it was too long.'),
  })
  .meta({
    id: 'RequestContent',
    examples: [
      {
        object: 'usage.content',
        id: '00000000-0000-7000-8000-000000000001',
        messages: [{ role: 'user', text: 'Write to [EMAIL]' }],
        answer: 'Dear Ada, ...',
        redactions: 1,
        is_cut: false,
      },
    ],
  })
export type ShownContent = z.infer<typeof requestContent>

const entries = z
  .array(
    z.object({
      account_kind: z.enum(['customer', 'hoster_payable', 'platform_revenue']),
      account_id: z.string().nullable().describe('UUID of the customer or hoster; null for the platform.'),
      amount_usd: z.number().describe('USD; negative if the account pays.'),
    }),
  )
  .describe('The amounts sum to zero.')

/** The answer of `GET /v1/usage/requests/{id}`. */
export const requestReceipt = z
  .object({
    object: z.literal('usage.receipt'),
    id: requestId,
    started_at: startedAt,
    key: z
      .object({
        id: z.string().describe('UUID of the key.'),
        name: z.string().nullable(),
        hint: z.string().nullable().describe('First ten and last four characters of the key.'),
      })
      .nullable(),
    trace_id: z
      .string()
      .nullable()
      .describe('The id of its OpenTelemetry trace, also in the header `x-switchyard-trace-id`; null if it has none.'),
    has_content: z
      .boolean()
      .describe('Whether its prompt and answer were recorded: `GET /v1/usage/requests/{id}/content`.'),
    label: requestLabel,
    model: z.string().describe('The model that served the request, or the requested one if it was not served.'),
    requested_model: z.string().describe('The `model` of the request, which may be `auto`.'),
    success,
    outcome,
    finish_reason: finishReason,
    client_disconnected: z.boolean().describe('True if the client disconnected before the end.'),
    latency_ms: latencyMs,
    first_token_ms: firstTokenMs,
    credit_wait_ms: count.describe(
      'Milliseconds, part of `latency_ms`, that the request waited for credit that other requests of the customer held.',
    ),
    served_by: z.object(serverFields).nullable().describe('The server that served the request; null if none did.'),
    price: z.object(priceFields).describe('The price at admission, for the tokens that `tokens.parts` does not name.'),
    tokens: z.object({
      source: z
        .enum(['upstream', 'gateway', 'none'])
        .describe('Which token counts are billed: those reported by the server (`upstream`) or those of the gateway.'),
      billed: z.object({ input: count, output: count }),
      counted: tokens('Tokens counted by the gateway'),
      reported: tokens('Tokens reported by the server'),
      parts: z
        .array(z.object({ ...partPriceFields, tokens: count }))
        .describe(
          'The billed tokens with a price of their own. All others cost the prices of `price`. `request` is the price of the request itself.',
        ),
      reasoning: count.nullable().describe('Billed reasoning tokens, part of the output; null if none were reported.'),
    }),
    dropped_fields: z.array(z.string()).describe('Fields of the body that the server did not get. At most 24.'),
    changed_fields: z
      .array(z.string())
      .describe(
        'Fields that the server got with other values, because its vendor refuses those of the request. At most 24.',
      ),
    schema_violation: z
      .string()
      .nullable()
      .describe(
        'Where the answer breaks the schema of the request, such as `#/tags maxItems`, if the server got another schema.',
      ),
    hold_usd: usdNumber.describe('USD held before the request was sent: the maximum it could cost.'),
    cost_usd: usdNumber.describe('Charge for the request in USD: exactly `platform_fee_usd` + `hoster_share_usd`.'),
    platform_fee_usd: usdNumber.describe('Share of the platform, in USD.'),
    hoster_share_usd: usdNumber.describe('Share of the hoster, in USD; 0 for local servers and clouds.'),
    written_off_usd: usdNumber.describe('USD measured beyond the hold, or after its lease expired. It is not charged.'),
    ledger: z
      .object({
        transaction: z.string().describe('Id of the ledger transaction.'),
        at: instant,
        entries,
      })
      .nullable()
      .describe('The part of this request in the transaction that settled it; null if the request was free.'),
    refunds: z
      .array(
        z.object({
          transaction: z.string(),
          at: instant,
          reason: z.string(),
          amount_usd: usdNumber.describe('USD.'),
          entries,
        }),
      )
      .describe('Refunds of this request. They do not change `cost_usd`.'),
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
        max_input_usd_per_million: z.number().nullable(),
        max_output_usd_per_million: z.number().nullable(),
        sources: z
          .partialRecord(z.enum(constraintNames), z.enum(constraintSources))
          .describe('Which of these a header or the API key set or made stricter. The body set the others.'),
      })
      .describe('The routing constraints of the request.'),
    auto: autoNoteSchema,
    price_check: z
      .object({
        limit_percent: z
          .int()
          .describe('How much of the cheapest expected cost the first server may cost: the limit of the tier.'),
        cheapest_usd: usdNumber.describe('Expected cost at the cheapest eligible server of the model, in USD.'),
        served_usd: usdNumber.describe('Expected cost at the server that answered, in USD.'),
        kept: z
          .boolean()
          .describe(
            'False if the server that answered costs more than the limit. `candidates` says why each cheaper one did not answer.',
          ),
      })
      .nullable()
      .describe('Compares expected costs; null if no server answered or its model had no other eligible server.'),
    max_tokens_clamp: z
      .object({
        asked: z.int().nullable().describe('The `max_tokens` of the request; null if the default applied.'),
        allowed: z.int().describe('The `max_tokens` that was enforced.'),
        by: z
          .enum(clampReasons)
          .describe(
            'The field that lowered it, or `model`: the server does not generate as many tokens after this prompt.',
          ),
      })
      .nullable()
      .describe('How `max_tokens` was lowered; null if it was not.'),
    attempts: z
      .array(z.object({ ...server, outcome: z.string(), elapsed_ms: count.describe('Milliseconds.') }))
      .describe('Every attempt at a server, in order.'),
    candidates: z
      .array(
        z.object({
          ...server,
          status: z.enum(['answered', 'failed', 'not_tried', 'excluded']),
          reason: z
            .string()
            .nullable()
            .describe('Why the candidate failed, was excluded, or was ranked below the first; otherwise null.'),
          rank: z.int().positive().nullable().describe('Position in the order of attempts, from 1; null if excluded.'),
          expected_cost_usd: usdNumber.nullable().describe('Cost expected before the request ran, in USD.'),
          predicted_ms: count
            .nullable()
            .describe('Predicted milliseconds to the first content of a stream, otherwise to the complete answer.'),
          trust_score: z
            .number()
            .nullable()
            .describe('0 to 1, as of an earlier day: not the one that decided. Null for local servers and clouds.'),
          in_flight: count.nullable().describe('Requests that the server was running for this gateway process.'),
        }),
      )
      .describe('Ranked candidates in the order they would be tried, then excluded ones. At most 24 of each.'),
    candidates_left_out: count.describe('Number of candidates beyond those listed.'),
  })
  .meta({
    id: 'RequestReceipt',
    examples: [
      {
        object: 'usage.receipt',
        id: '00000000-0000-7000-8000-000000000001',
        started_at: '2026-11-21T16:14:41.680Z',
        key: { id: '00000000-0000-4000-8000-00000000000a', name: 'first key', hint: 'sk-sy-1R1S…JAkC' },
        trace_id: null,
        has_content: false,
        label: 'support-bot',
        model: 'demo',
        requested_model: 'qwen3-8b',
        success: true,
        outcome: 'served',
        finish_reason: 'length',
        client_disconnected: false,
        latency_ms: 1162,
        first_token_ms: 1154,
        credit_wait_ms: 0,
        served_by: { provider: 'local', endpoint: 'demo', hoster_id: null, hoster_name: null },
        price: { group: null, version: null, input_usd_per_million: 0.1, output_usd_per_million: 0.4 },
        tokens: {
          source: 'upstream',
          billed: { input: 9, output: 40 },
          counted: { input: null, output: null },
          reported: { input: 9, output: 40 },
          parts: [],
          reasoning: null,
        },
        dropped_fields: ['service_tier'],
        changed_fields: [],
        schema_violation: null,
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
          max_input_usd_per_million: null,
          max_output_usd_per_million: null,
          sources: { privacy_mode: 'key' },
        },
        auto: null,
        price_check: { limit_percent: 100, cheapest_usd: 0.000046, served_usd: 0.000046, kept: true },
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
