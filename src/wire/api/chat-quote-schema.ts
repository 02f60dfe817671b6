import { z } from 'zod'
import { providerKinds } from '../../base/domain/offer.ts'
import { autoNoteSchema } from './auto-note.ts'
import { partPriceFields, priceFields } from './price-fields.ts'

const usdNumber = z.number().nonnegative().describe('USD.')
const count = z.int().nonnegative()

/** The fields that identify a server in quotes and receipts. */
export const serverFields = {
  provider: z.enum(providerKinds).describe('Kind of provider that runs the server.'),
  endpoint: z.string().describe('Name of the endpoint; for a hoster, the UUID of its endpoint.'),
  hoster_id: z.string().nullable().describe('UUID of the hoster; null for other kinds of providers.'),
  hoster_name: z.string().nullable().describe('Null for other kinds of providers.'),
}

const server = { model: z.string().describe('Id of the model.'), ...serverFields }

/** The answer to a chat request with `dry_run: true`. */
export const chatQuoteSchema = z
  .object({
    object: z.literal('chat.completion.quote'),
    id: z.string().describe('The `x-request-id` of the answer. A quote has no receipt.'),
    model: z.string().describe('The `model` of the request.'),
    max_tokens: count
      .nullable()
      .describe('Limit of output tokens per choice that the request would run with; null if no server could serve it.'),
    max_tokens_clamped_by: z
      .enum(['max_cost_usd', 'model'])
      .nullable()
      .describe(
        'What lowers `max_tokens`: the field `max_cost_usd`, or `model` if no server generates as many tokens after this prompt; null if nothing does.',
      ),
    expected: z
      .object({
        cost_usd: usdNumber.describe('Expected cost at the first candidate, in USD.'),
        input_tokens: count.describe('Prompt tokens as the gateway counts them.'),
        output_tokens: count.describe('An assumption: 256 for each choice, or `max_tokens` if that is less.'),
      })
      .nullable()
      .describe('Null if no server could serve the request.'),
    worst_case_cost_usd: usdNumber
      .nullable()
      .describe('Cost at the most expensive candidate with all of `max_tokens` generated, in USD.'),
    hold_usd: usdNumber.nullable().describe('Amount held before the request is sent, in USD: the worst case.'),
    auto: autoNoteSchema,
    candidates: z
      .array(
        z.object({
          rank: z.int().positive(),
          ...server,
          max_tokens: count.describe('Limit of output tokens per choice at this server.'),
          price: z
            .object({
              ...priceFields,
              parts: z
                .array(z.object(partPriceFields))
                .describe(
                  'Kinds of tokens that cost other than the input or the output does, such as `cache_read`. `request` is the price of the request itself.',
                ),
            })
            .describe('The current prices for a prompt of `expected.input_tokens`.'),
          expected_cost_usd: usdNumber,
          worst_case_cost_usd: usdNumber,
          predicted_ms: count
            .nullable()
            .describe(
              'Predicted milliseconds to the first content of a stream, otherwise to the complete answer; null without enough measurements.',
            ),
          trust_score: z
            .number()
            .nullable()
            .describe('0 to 1, as of an earlier day: not the one that decides. Null for local servers and clouds.'),
          in_flight: count.describe('Requests that the server is running for this gateway process.'),
          state: z.enum(['open', 'probing', 'ejected']),
        }),
      )
      .describe('Servers that could serve the request, in the order they would be tried.'),
    excluded: z
      .array(z.object({ ...server, reason: z.string().describe('The constraint or limit that excluded the server.') }))
      .describe('Servers that must not serve the request.'),
    refusal: z
      .object({ code: z.string(), message: z.string(), param: z.string().nullable() })
      .nullable()
      .describe('The error that the request would get if no server could serve it; otherwise null.'),
  })
  .meta({
    id: 'ChatQuote',
    examples: [
      {
        object: 'chat.completion.quote',
        id: '00000000-0000-7000-8000-000000000001',
        model: 'qwen3-8b',
        max_tokens: 228,
        max_tokens_clamped_by: 'max_cost_usd',
        expected: { cost_usd: 0.000046, input_tokens: 8, output_tokens: 228 },
        worst_case_cost_usd: 0.0000998,
        hold_usd: 0.0000998,
        auto: null,
        candidates: [
          {
            rank: 1,
            model: 'qwen3-8b',
            provider: 'local',
            endpoint: 'gpu-1',
            hoster_id: null,
            hoster_name: null,
            max_tokens: 228,
            price: { group: null, version: null, input_usd_per_million: 0.05, output_usd_per_million: 0.2, parts: [] },
            expected_cost_usd: 0.000046,
            worst_case_cost_usd: 0.0000499,
            predicted_ms: null,
            trust_score: null,
            in_flight: 0,
            state: 'open',
          },
          {
            rank: 2,
            model: 'demo',
            provider: 'local',
            endpoint: 'demo',
            hoster_id: null,
            hoster_name: null,
            max_tokens: 228,
            price: { group: null, version: null, input_usd_per_million: 0.1, output_usd_per_million: 0.4, parts: [] },
            expected_cost_usd: 0.000092,
            worst_case_cost_usd: 0.0000998,
            predicted_ms: null,
            trust_score: null,
            in_flight: 0,
            state: 'open',
          },
        ],
        excluded: [
          {
            model: 'qwen3-8b',
            provider: 'cloud',
            endpoint: 'some-cloud',
            hoster_id: null,
            hoster_name: null,
            reason: 'privacy_mode',
          },
        ],
        refusal: null,
      },
    ],
  })
export type ChatQuote = z.infer<typeof chatQuoteSchema>
