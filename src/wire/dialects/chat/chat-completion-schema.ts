import { z } from 'zod'

// These schemas describe answers in the OpenAPI document and are used nowhere else. upstream-completion.ts and
// chat-stream.ts build the answers and keep further fields of the upstream.

const finishReason = z.enum(['stop', 'length', 'tool_calls', 'content_filter', 'function_call'])
const created = z.int().describe('When the request was received, in Unix seconds.')
const id = z.string().describe('`chatcmpl-` followed by the request id of the `x-request-id` header.')
const model = z.string().describe('Id of the model that answered, even for `auto` and after a fallback.')
const usage = z.looseObject({
  prompt_tokens: z.int().describe('Billed input tokens.'),
  completion_tokens: z.int().describe('Billed output tokens, including hidden reasoning.'),
  total_tokens: z.int().describe('`prompt_tokens` + `completion_tokens`.'),
  cost_usd: z
    .number()
    .nonnegative()
    .describe('Charge for the request in USD: exact, with at most 9 decimals. 0 if it was free.'),
})
const toolCall = z.looseObject({
  id: z.string().describe('The `tool_call_id` of the message with the result.'),
  type: z.string().describe('The type of the tool: `function` or `custom`. A custom tool has its data in `custom`.'),
  function: z
    .looseObject({
      name: z.string(),
      arguments: z.string().describe('The arguments as JSON text. Check them: the model may have made a mistake.'),
    })
    .optional(),
})

const answerExample = {
  id: 'chatcmpl-00000000-0000-7000-8000-000000000001',
  created: 1795252195,
  model: 'demo',
}

/** A whole answer. */
export const chatCompletionSchema = z
  .looseObject({
    id,
    object: z.literal('chat.completion'),
    created,
    model,
    choices: z.array(
      z.looseObject({
        index: z.int(),
        message: z.looseObject({
          role: z.literal('assistant'),
          content: z.string().nullable().describe('The text; null if the model only calls tools.'),
          tool_calls: z.array(toolCall).optional().describe('The tools that the model calls.'),
        }),
        finish_reason: finishReason.describe(
          'Why the answer ends: `stop` (complete), `length` (at `max_tokens`), `tool_calls` or `content_filter`.',
        ),
      }),
    ),
    usage,
  })
  .meta({
    id: 'ChatCompletion',
    examples: [
      {
        ...answerExample,
        object: 'chat.completion',
        choices: [
          { index: 0, message: { role: 'assistant', content: 'Hello! How can I help?' }, finish_reason: 'stop' },
        ],
        usage: { prompt_tokens: 9, completion_tokens: 7, total_tokens: 16, cost_usd: 0.0000037 },
      },
    ],
  })

/** The data of one event of a stream. */
export const chatChunkSchema = z
  .looseObject({
    id: id.describe('The same in all chunks of an answer: `chatcmpl-` followed by the request id.'),
    object: z.literal('chat.completion.chunk'),
    created,
    model,
    choices: z
      .array(
        z.looseObject({
          index: z.int().describe('The number of the choice, from 0.'),
          delta: z.looseObject({
            role: z.literal('assistant').optional().describe('In the first chunk of each choice.'),
            content: z.string().nullish().describe('The next piece of the text.'),
            tool_calls: z
              .array(
                z.looseObject({
                  index: z.int().describe('The number of the call, from 0.'),
                  id: z.string().optional().describe('In the first chunk of each call.'),
                  type: z.string().optional().describe('In the first chunk of each call: `function` or `custom`.'),
                  function: z
                    .looseObject({
                      name: z.string().optional().describe('In the first chunk of each call.'),
                      arguments: z.string().optional().describe('The next piece of the arguments.'),
                    })
                    .optional(),
                }),
              )
              .optional()
              .describe('The next pieces of tool calls.'),
          }),
          finish_reason: finishReason.nullable().describe('Null until the last chunk of the choice.'),
        }),
      )
      .describe('Empty in the chunk with the usage.'),
    usage: usage
      .nullish()
      .describe(
        'With `stream_options.include_usage`: null in every chunk except the last one, which has the billed tokens and their cost.',
      ),
  })
  .meta({
    id: 'ChatCompletionChunk',
    examples: [
      {
        ...answerExample,
        object: 'chat.completion.chunk',
        choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: null }],
      },
    ],
  })
