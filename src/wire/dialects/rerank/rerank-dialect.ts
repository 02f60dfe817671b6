import type { ExtraFieldRules } from '../chat/upstream-request.ts'
import type { ClientDialect } from '../client-dialect.ts'
import { errorBody } from '../openai-error-body.ts'
import { dataAnswer, noStream } from '../whole-only.ts'
import { parseRerankRequest } from './rerank-request.ts'
import { rerankRequestSchema } from './rerank-request-schema.ts'
import { rerankSchema } from './rerank-schema.ts'

const OPERATION_DESCRIPTION = `Orders texts by how well they answer a query. Models with the feature \`rerank\` serve it. All documents of a request go to one server. Only input tokens are charged, and the query counts once for each document. A request that no server answers completely costs nothing.`

/** The rerank API that Jina and Cohere share. */
export const rerankDialectWith = (rules?: ExtraFieldRules): ClientDialect => ({
  path: '/v1/rerank',
  operation: {
    operationId: 'createRerank',
    tag: 'Embeddings',
    summary: 'Order documents by relevance',
    description: OPERATION_DESCRIPTION,
    body: rerankRequestSchema,
    answer: rerankSchema,
    answerDescription: 'The documents in order. With `dry_run: true`, a quote.',
  },
  parseRequest: body => parseRerankRequest(body, rules),
  answer: dataAnswer,
  stream: noStream,
  errorBody,
})
