import type { ExtraFieldRules } from '../chat/upstream-request.ts'
import type { ClientDialect } from '../client-dialect.ts'
import { errorBody } from '../openai-error-body.ts'
import { dataAnswer, noStream } from '../whole-only.ts'
import { parseEmbeddingsRequest } from './embeddings-request.ts'
import { embeddingsRequestSchema } from './embeddings-request-schema.ts'
import { embeddingsSchema } from './embeddings-schema.ts'

const OPERATION_DESCRIPTION = `Turns texts into vectors. Texts with similar meaning get similar vectors. All inputs of a request go to one server, and the answer has one vector for each, in the same order. Only input tokens are charged. A request that no server answers completely costs nothing.

Vectors of different models cannot be compared, so \`model\` must name one model and \`fallback_models\` is refused.

**Other fields.** The servers also get \`user\`. A field that the server does not get is named in the header \`x-switchyard-dropped-fields\`.`

/** OpenAI's Embeddings API. */
export const embeddingsDialectWith = (rules?: ExtraFieldRules): ClientDialect => ({
  path: '/v1/embeddings',
  operation: {
    operationId: 'createEmbeddings',
    tag: 'Embeddings',
    summary: 'Create embeddings',
    description: OPERATION_DESCRIPTION,
    body: embeddingsRequestSchema,
    answer: embeddingsSchema,
    answerDescription: 'The vectors. With `dry_run: true`, a quote.',
  },
  parseRequest: body => parseEmbeddingsRequest(body, rules),
  answer: dataAnswer,
  stream: noStream,
  errorBody,
})
