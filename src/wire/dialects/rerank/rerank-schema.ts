import { z } from 'zod'

/** Describes answers in the OpenAPI document and is used nowhere else. */
export const rerankSchema = z
  .looseObject({
    id: z.string().describe('`rerank-` followed by the request id of the `x-request-id` header.'),
    object: z.literal('list'),
    model: z.string().describe('Id of the model that answered, even for `auto` and after a fallback.'),
    results: z
      .array(
        z.looseObject({
          index: z.int().nonnegative().describe('The number of the document in the request, from 0.'),
          relevance_score: z.number().describe('Higher is more relevant. Only scores of one answer can be compared.'),
          document: z.looseObject({ text: z.string() }).optional().describe('With `return_documents: true`.'),
        }),
      )
      .describe('The most relevant documents, the best first.'),
    usage: z.looseObject({
      prompt_tokens: z.int().describe('Billed input tokens: the query counts once for each document.'),
      total_tokens: z.int().describe('The same number.'),
      cost_usd: z.number().nonnegative().describe('Charge for the request in USD: exact, with at most 9 decimals.'),
    }),
  })
  .meta({
    id: 'RerankResult',
    examples: [
      {
        id: 'rerank-00000000-0000-7000-8000-000000000001',
        object: 'list',
        model: 'demo',
        results: [
          { index: 0, relevance_score: 0.74 },
          { index: 1, relevance_score: 0.01 },
        ],
        usage: { prompt_tokens: 21, total_tokens: 21, cost_usd: 0.0000021 },
      },
    ],
  })
