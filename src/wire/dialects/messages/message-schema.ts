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

/** The body of an error: what `messagesErrorBody` renders. */
export const messageErrorSchema = z
  .looseObject({
    type: z.literal('error'),
    error: z.looseObject({
      type: z.string().describe("The type that Anthropic's SDKs know for this status."),
      message: z.string().describe('What is wrong and what to do. For people.'),
      code: z.string().describe('What is wrong. For programs: the codes of docs/errors.md.'),
      param: z.string().nullable().describe('The body field or header at fault.'),
    }),
    request_id: z.string().nullable().describe('The `x-request-id` of the answer.'),
  })
  .meta({
    id: 'MessageError',
    examples: [
      {
        type: 'error',
        error: {
          type: 'not_found_error',
          message: 'The model `m` does not exist or you do not have access to it. GET /v1/models lists the models.',
          code: 'model_not_found',
          param: 'model',
        },
        request_id: '00000000-0000-7000-8000-000000000001',
      },
    ],
  })
