import { z } from 'zod'

const count = z.int().nonnegative()

const example = {
  id: 'msg_00000000-0000-7000-8000-000000000001',
  type: 'message',
  role: 'assistant',
  model: 'demo',
  content: [{ type: 'text', text: 'Hello!' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 9, output_tokens: 2, cost_usd: 0.000013 },
}

/** Anthropic's message object with the charge in its usage. */
export const messageSchema = z
  .looseObject({
    id: z.string().describe('`msg_` followed by the request id of the `request-id` header.'),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string().describe('The model that answered.'),
    content: z
      .array(z.looseObject({ type: z.string() }))
      .describe('Blocks of text, thinking and tool calls, in the order in which they were generated.'),
    stop_reason: z
      .string()
      .describe('`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `refusal` or `model_context_window_exceeded`.'),
    stop_sequence: z.string().nullable(),
    usage: z
      .looseObject({
        input_tokens: count.describe('Without the tokens of caches.'),
        output_tokens: count,
        cost_usd: z.number().nonnegative().optional().describe('The charge in USD.'),
      })
      .describe('The billed tokens.'),
  })
  .meta({ id: 'Message', examples: [example] })

/** The data of one event of a stream. */
export const messageEventSchema = z
  .looseObject({ type: z.string().describe('For example `content_block_delta` or `message_stop`.') })
  .meta({
    id: 'MessageStreamEvent',
    examples: [{ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } }],
  })
