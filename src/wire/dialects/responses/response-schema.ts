import { z } from 'zod'

const count = z.int().nonnegative()
const item = z.looseObject({ type: z.string(), id: z.string().optional() })

const example = {
  id: 'resp_00000000-0000-7000-8000-000000000001',
  object: 'response',
  created_at: 1795252195,
  status: 'completed',
  model: 'demo',
  output: [
    {
      id: 'msg_000000000000700080000000000000010_0',
      type: 'message',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Hello!', annotations: [], logprobs: [] }],
    },
  ],
  usage: {
    input_tokens: 9,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 11,
    cost_usd: 0.000013,
  },
}

/** OpenAI's response object with the charge in its usage. The settings of the request follow as further fields. */
export const responseSchema = z
  .looseObject({
    id: z.string().describe('`resp_` followed by the request id of the `x-request-id` header.'),
    object: z.literal('response'),
    created_at: count.describe('Unix seconds.'),
    status: z
      .enum(['in_progress', 'completed', 'incomplete', 'failed'])
      .describe('`incomplete`: cut at `max_output_tokens` or by a content filter; see `incomplete_details`.'),
    model: z.string().describe('The model that answered.'),
    output: z.array(item).describe('Messages, reasoning and tool calls, in the order in which they were generated.'),
    usage: z
      .looseObject({
        input_tokens: count,
        output_tokens: count,
        total_tokens: count,
        cost_usd: z.number().nonnegative().optional().describe('The charge in USD.'),
      })
      .nullish()
      .describe('The billed tokens; null while the answer is generated.'),
  })
  .meta({ id: 'Response', examples: [example] })

/** The data of one event of a stream. */
export const responseEventSchema = z
  .looseObject({
    type: z.string().describe('For example `response.output_text.delta` or `response.completed`.'),
    sequence_number: count,
  })
  .meta({
    id: 'ResponseStreamEvent',
    examples: [
      {
        type: 'response.output_text.delta',
        sequence_number: 4,
        item_id: 'msg_000000000000700080000000000000010_0',
        output_index: 0,
        content_index: 0,
        delta: 'Hello',
        logprobs: [],
      },
    ],
  })
