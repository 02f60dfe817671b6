import { z } from 'zod'
import { embeddingsBounds, embeddingsFieldsSchema } from '../embeddings/embeddings-request-schema.ts'
import { inputRoutingSchemas } from '../routing-schemas.ts'

const { model, dimensions } = embeddingsFieldsSchema.shape

/** The fields of a body that are the gateway's own, and the model of the address. */
export const geminiEmbeddingsRoutingSchema = z.looseObject({ model, ...inputRoutingSchemas })

const content = z
  .looseObject({ parts: z.array(z.looseObject({ text: z.string() })).min(1) })
  .describe('Its parts must be texts. They are joined as lines.')
const outputDimensionality = dimensions.describe(
  'Length of the vector, the same in all requests. Only servers with the feature `dimensions` get such a request.',
)
const item = { content, outputDimensionality }
const exampleContent = { parts: [{ text: 'a ferry' }] }

/** The body of `embedContent`. */
export const embedContentRequestSchema = z
  .looseObject({ ...item, ...inputRoutingSchemas })
  .meta({ id: 'EmbedContentRequest', examples: [{ content: exampleContent }] })

/** The body of `batchEmbedContents`. */
export const batchEmbedContentsRequestSchema = z
  .looseObject({
    requests: z
      .array(z.looseObject({ model: z.string().nullish().describe('The model of the address, or left out.'), ...item }))
      .min(1)
      .max(embeddingsBounds.inputs)
      .describe('At most 300,000 tokens in all.'),
    ...inputRoutingSchemas,
  })
  .meta({ id: 'BatchEmbedContentsRequest', examples: [{ requests: [{ content: exampleContent }] }] })

const vector = z.looseObject({ values: z.array(z.number()) })
const common = {
  modelVersion: z.string().describe('The model that answered.'),
  usageMetadata: z
    .looseObject({
      promptTokenCount: z.int().describe('Billed input tokens.'),
      totalTokenCount: z.int().describe('The same number.'),
      cost_usd: z.number().nonnegative().describe('The charge in USD.'),
    })
    .describe('The billed tokens.'),
}
const exampleUsage = { promptTokenCount: 2, totalTokenCount: 2, cost_usd: 2e-7 }
const exampleVector = { values: [0.0718, -0.0331, 0.0564] }

export const embedContentSchema = z.looseObject({ embedding: vector, ...common }).meta({
  id: 'EmbedContentResponse',
  examples: [{ embedding: exampleVector, modelVersion: 'demo', usageMetadata: exampleUsage }],
})

export const batchEmbedContentsSchema = z.looseObject({ embeddings: z.array(vector), ...common }).meta({
  id: 'BatchEmbedContentsResponse',
  examples: [{ embeddings: [exampleVector], modelVersion: 'demo', usageMetadata: exampleUsage }],
})
