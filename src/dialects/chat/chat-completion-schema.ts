import { z } from 'zod'

/** For the API description. Answers are made by upstream-completion.ts, which keeps further fields of the upstream. */
export const chatCompletionSchema = z
  .looseObject({
    id: z.string().describe('`chatcmpl-` and the request id that the `x-request-id` header carries.'),
    object: z.literal('chat.completion'),
    created: z.int().describe('Unix time in seconds.'),
    model: z.string().describe('The model that served, also for `auto` and after a fallback.'),
    choices: z.array(
      z.looseObject({
        index: z.int(),
        message: z.looseObject({ role: z.literal('assistant'), content: z.string().nullable() }),
        finish_reason: z.enum(['stop', 'length', 'tool_calls', 'content_filter', 'function_call']),
      }),
    ),
    usage: z.looseObject({
      prompt_tokens: z.int().describe('As billed.'),
      completion_tokens: z.int().describe('As billed.'),
      total_tokens: z.int(),
      cost_usd: z
        .number()
        .nonnegative()
        .describe('What this request was charged, in USD with at most 9 decimals, rounded nowhere.'),
    }),
  })
  .meta({ id: 'ChatCompletion' })
