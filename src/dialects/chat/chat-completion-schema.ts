import { z } from 'zod'

/**
 * Describes answers in the OpenAPI document, and is used nowhere else. upstream-completion.ts builds the
 * answers and keeps further fields of the upstream.
 */
export const chatCompletionSchema = z
  .looseObject({
    id: z.string().describe('`chatcmpl-` followed by the request id of the `x-request-id` header.'),
    object: z.literal('chat.completion'),
    created: z.int().describe('When the request was received, in Unix seconds.'),
    model: z.string().describe('Id of the model that answered, even for `auto` and after a fallback.'),
    choices: z.array(
      z.looseObject({
        index: z.int(),
        message: z.looseObject({ role: z.literal('assistant'), content: z.string().nullable() }),
        finish_reason: z.enum(['stop', 'length', 'tool_calls', 'content_filter', 'function_call']),
      }),
    ),
    usage: z.looseObject({
      prompt_tokens: z.int().describe('Billed input tokens.'),
      completion_tokens: z.int().describe('Billed output tokens, including hidden reasoning.'),
      total_tokens: z.int().describe('`prompt_tokens` + `completion_tokens`.'),
      cost_usd: z
        .number()
        .nonnegative()
        .describe('Charge for the request in USD: exact, with at most 9 decimals. 0 if it was free.'),
    }),
  })
  .meta({ id: 'ChatCompletion' })
