import { z } from 'zod'
import { between, modelId } from '../field-schemas.ts'
import { inputRoutingSchemas } from '../routing-schemas.ts'

/** Limits of an embeddings request, as OpenAI documents them. */
export const embeddingsBounds = { inputs: 2_048, tokens: 300_000, dimensions: 65_536 } as const

export const encodings = ['float', 'base64'] as const

/** Every field except the input, which `readTextInput` checks. The API reference shows them in this order. */
export const embeddingsFieldsSchema = z.looseObject(
  {
    model: modelId.describe(
      'Id of a model with the feature `embeddings` from `GET /v1/models`. Not `auto`: vectors of different models cannot be compared.',
    ),
    encoding_format: z
      .enum(encodings, { error: `one of ${encodings.join(', ')}` })
      .nullish()
      .describe(
        'How to send each vector: `float`, a list of numbers, or `base64`, the numbers as little-endian float32. Default `float`.',
      ),
    dimensions: between(1, embeddingsBounds.dimensions, z.int)
      .nullish()
      .describe('Length of each vector. Only servers with the feature `dimensions` get such a request.'),
    ...inputRoutingSchemas,
  },
  { error: 'a JSON object' },
)

const { model, ...otherFields } = embeddingsFieldsSchema.shape
const tokenIds = z.array(z.int().nonnegative()).min(1)

/** The body of `POST /v1/embeddings` as the OpenAPI document shows it. */
export const embeddingsRequestSchema = z
  .looseObject({
    model,
    input: z
      .union([z.string().min(1), z.array(z.string().min(1)).min(1), tokenIds, z.array(tokenIds).min(1)])
      .describe(
        'What to embed: a text, up to 2,048 texts, the token ids of one text, or up to 2,048 lists of token ids. At most 300,000 tokens in all. None may be empty.',
      ),
    ...otherFields,
  })
  .meta({ id: 'EmbeddingsRequest', examples: [{ model: 'demo', input: ['a ferry', 'a ship'] }] })
