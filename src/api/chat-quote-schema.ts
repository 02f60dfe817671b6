import { z } from 'zod'
import { serverFields } from './server-fields.ts'

const usdNumber = z.number().nonnegative()
const count = z.int().nonnegative()

const server = { model: z.string(), ...serverFields }

/** The answer to a chat request with `dry_run: true`. */
export const chatQuoteSchema = z
  .object({
    object: z.literal('chat.completion.quote'),
    id: z.string().describe('The `x-request-id`. A quote has no receipt: it is no request that ran.'),
    model: z.string().describe('As asked for.'),
    max_tokens: count.nullable().describe('What would be enforced, per choice; null when nothing could serve it.'),
    max_tokens_clamped_by: z
      .enum(['max_cost_usd'])
      .nullable()
      .describe('What lowers max_tokens; null when nothing does.'),
    expected: z
      .object({
        cost_usd: usdNumber.describe('At the first candidate.'),
        input_tokens: count.describe("The prompt by the gateway's own count."),
        output_tokens: count.describe('An assumption: 256 for each choice, or max_tokens if that is less.'),
      })
      .nullable(),
    worst_case_cost_usd: usdNumber.nullable().describe('At the dearest candidate, with every token of max_tokens.'),
    hold_usd: usdNumber.nullable().describe('What would be held before it is sent: the worst case.'),
    candidates: z
      .array(
        z.object({
          rank: z.int().positive(),
          ...server,
          price: z.object({
            version: z.int().nullable(),
            input_usd_per_million: usdNumber,
            output_usd_per_million: usdNumber,
          }),
          expected_cost_usd: usdNumber,
          worst_case_cost_usd: usdNumber,
          predicted_ms: count.nullable().describe('To the first content of a stream, else to the whole answer.'),
          trust_score: z.number().nullable(),
          in_flight: count,
          state: z.enum(['open', 'probing', 'ejected']),
        }),
      )
      .describe('In the order they would be tried.'),
    excluded: z.array(z.object({ ...server, reason: z.string() })).describe('Who may not serve it, and why.'),
    refusal: z
      .object({ code: z.string(), message: z.string(), param: z.string().nullable() })
      .nullable()
      .describe('The error the request would get, when nothing could serve it.'),
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
        candidates: [
          {
            rank: 1,
            model: 'qwen3-8b',
            provider: 'local',
            endpoint: 'gpu-1',
            hoster_id: null,
            hoster_name: null,
            price: { version: null, input_usd_per_million: 0.05, output_usd_per_million: 0.2 },
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
            price: { version: null, input_usd_per_million: 0.1, output_usd_per_million: 0.4 },
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
