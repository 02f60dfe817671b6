import { z } from 'zod'
import { chatFieldsSchema } from '../chat/chat-request-schema.ts'
import { between } from '../field-schemas.ts'
import { routingSchemas } from '../routing-schemas.ts'

export const completionsBounds = { prompts: 128, tokens: 300_000, choices: 128 } as const

const { model, stream, stream_options, max_tokens, temperature } = chatFieldsSchema.shape

/** Every field except the prompt, which `readTextInput` checks. The API reference shows them in this order. */
export const completionsFieldsSchema = z.looseObject(
  {
    model: model.describe(
      'Id of a model with the feature `completions` from `GET /v1/models`, or `auto` to let the gateway choose among them. 1 to 256 characters.',
    ),
    suffix: z
      .string({ error: 'a string' })
      .nullish()
      .describe(
        'The text after the gap that the model fills. The prompt is the text before it. A server refuses it for a model that cannot fill gaps.',
      ),
    max_tokens: max_tokens.describe('Maximum number of tokens to generate for each choice. Default 16.'),
    stream,
    stream_options,
    temperature,
    n: between(1, 16, z.int)
      .nullish()
      .describe(
        'Number of choices to generate for each prompt, 1 to 16; at most 128 choices in all. Each is billed. Default 1.',
      ),
    logprobs: between(0, 20, z.int)
      .nullish()
      .describe('Number of likely tokens to list with each generated token. Default: none.'),
    ...routingSchemas,
  },
  { error: 'a JSON object' },
)

const { model: modelField, ...otherFields } = completionsFieldsSchema.shape
const tokenIds = z.array(z.int().nonnegative()).min(1)

/** The body of `POST /v1/completions` as the OpenAPI document shows it. */
export const completionsRequestSchema = z
  .looseObject({
    model: modelField,
    prompt: z
      .union([z.string(), z.array(z.string()).min(1), tokenIds, z.array(tokenIds).min(1)])
      .describe(
        'What to continue: a text, up to 128 texts, the token ids of one text, or up to 128 lists of token ids.',
      ),
    ...otherFields,
  })
  .meta({ id: 'CompletionRequest', examples: [{ model: 'demo', prompt: 'Once upon a time', max_tokens: 16 }] })
