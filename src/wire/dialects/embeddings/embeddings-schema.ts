import { z } from 'zod'

/** Describes answers in the OpenAPI document and is used nowhere else. */
export const embeddingsSchema = z
  .looseObject({
    object: z.literal('list'),
    data: z
      .array(
        z.looseObject({
          object: z.literal('embedding'),
          index: z.int().nonnegative().describe('The number of the input, from 0.'),
          embedding: z
            .union([z.array(z.number()), z.string()])
            .describe('The vector: a list of numbers, or base64 with `encoding_format: "base64"`.'),
        }),
      )
      .describe('One vector for each input, in the same order.'),
    model: z.string().describe('Id of the model that answered.'),
    usage: z.looseObject({
      prompt_tokens: z.int().describe('Billed input tokens.'),
      total_tokens: z.int().describe('The same number.'),
      cost_usd: z.number().nonnegative().describe('Charge for the request in USD: exact, with at most 9 decimals.'),
    }),
  })
  .meta({
    id: 'EmbeddingList',
    examples: [
      {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.0718, -0.0331, 0.0564] }],
        model: 'demo',
        usage: { prompt_tokens: 2, total_tokens: 2, cost_usd: 2e-7 },
      },
    ],
  })
