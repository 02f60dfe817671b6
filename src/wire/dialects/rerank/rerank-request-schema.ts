import { z } from 'zod'
import { between, boolean, modelId } from '../field-schemas.ts'
import { inputRoutingSchemas, routingSchemas } from '../routing-schemas.ts'

/** `pairBytes`: of all texts that the model reads. It reads the query again with each document. */
export const rerankBounds = { documents: 1_000, pairBytes: 4_194_304 } as const

/**
 * Every field except the query and the documents, which `readPairs` checks. The API reference shows them in this order.
 */
export const rerankFieldsSchema = z.looseObject(
  {
    model: modelId.describe(
      'Id of a model with the feature `rerank` from `GET /v1/models`, or `auto` to let the gateway choose among them.',
    ),
    top_n: between(1, rerankBounds.documents, z.int)
      .nullish()
      .describe('Number of documents to return, the most relevant ones. Default: all.'),
    return_documents: boolean.nullish().describe('Return the text of each document. Default `false`.'),
    fallback_models: routingSchemas.fallback_models,
    ...inputRoutingSchemas,
  },
  { error: 'a JSON object' },
)

const { model, ...otherFields } = rerankFieldsSchema.shape

/** The body of `POST /v1/rerank` as the OpenAPI document shows it. */
export const rerankRequestSchema = z
  .looseObject({
    model,
    query: z.string().min(1).describe('What to search for.'),
    documents: z
      .array(z.union([z.string().min(1), z.looseObject({ text: z.string().min(1) })]))
      .min(1)
      .max(rerankBounds.documents)
      .describe('The texts to order: 1 to 1,000 strings, or objects with a `text`.'),
    ...otherFields,
  })
  .meta({
    id: 'RerankRequest',
    examples: [
      { model: 'demo', query: 'When does the ferry leave?', documents: ['The ferry leaves at six.', 'A bill.'] },
    ],
  })
