import { z } from 'zod'

// These schemas describe answers in the OpenAPI document and are used nowhere else.

const finishReason = z.enum(['stop', 'length', 'content_filter'])
const common = {
  id: z.string().describe('`cmpl-` followed by the request id of the `x-request-id` header.'),
  object: z.literal('text_completion'),
  created: z.int().describe('When the request was received, in Unix seconds.'),
  model: z.string().describe('Id of the model that answered, even for `auto` and after a fallback.'),
}
const choice = {
  index: z.int().describe('The number of the choice, from 0: all choices of the first prompt come first.'),
  logprobs: z
    .looseObject({})
    .nullable()
    .describe('The likely tokens, as the server lists them; null without `logprobs`.'),
}
const usage = z.looseObject({
  prompt_tokens: z.int().describe('Billed input tokens.'),
  completion_tokens: z.int().describe('Billed output tokens.'),
  total_tokens: z.int().describe('`prompt_tokens` + `completion_tokens`.'),
  cost_usd: z.number().nonnegative().describe('Charge for the request in USD: exact, with at most 9 decimals.'),
})

const example = {
  id: 'cmpl-00000000-0000-7000-8000-000000000001',
  object: 'text_completion',
  created: 1795252195,
  model: 'demo',
}

/** A whole answer. */
export const completionSchema = z
  .looseObject({
    ...common,
    choices: z.array(
      z.looseObject({
        ...choice,
        text: z.string().describe('The generated text, without the prompt.'),
        finish_reason: finishReason.describe(
          'Why the text ends: `stop`, `length` (at `max_tokens`) or `content_filter`.',
        ),
      }),
    ),
    usage,
  })
  .meta({
    id: 'Completion',
    examples: [
      {
        ...example,
        choices: [{ index: 0, text: ' there was a ferry', logprobs: null, finish_reason: 'length' }],
        usage: { prompt_tokens: 4, completion_tokens: 4, total_tokens: 8, cost_usd: 0.000002 },
      },
    ],
  })

/** The data of one event of a stream. */
export const completionChunkSchema = z
  .looseObject({
    ...common,
    choices: z
      .array(
        z.looseObject({
          ...choice,
          text: z.string().describe('The next piece of the text.'),
          finish_reason: finishReason.nullable().describe('Null until the last chunk of the choice.'),
        }),
      )
      .describe('Empty in the chunk with the usage.'),
    usage: usage.nullish().describe('With `stream_options.include_usage`: null in every chunk except the last one.'),
  })
  .meta({
    id: 'CompletionChunk',
    examples: [{ ...example, choices: [{ index: 0, text: ' there', logprobs: null, finish_reason: null }] }],
  })
