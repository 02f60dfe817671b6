import type { AnswerFormat, ClientDialect, DialectOperation } from '../client-dialect.ts'
import { dataAnswer, noStream } from '../whole-only.ts'
import { parseGeminiEmbeddings } from './gemini-embeddings-request.ts'
import {
  batchEmbedContentsRequestSchema,
  batchEmbedContentsSchema,
  embedContentRequestSchema,
  embedContentSchema,
} from './gemini-embeddings-schema.ts'
import { geminiErrorBody } from './gemini-error-body.ts'
import { parseGeminiTarget } from './gemini-path.ts'
import { geminiErrorSchema, geminiPathParameters } from './gemini-schema.ts'

const DESCRIPTION =
  "Turns texts into vectors, in the form of Google's Gemini API. Models, limits, holds, prices and receipts are those of `POST /v1/embeddings`. `taskType`, `title` and other settings are dropped, and `x-switchyard-dropped-fields` names them. Vectors of different models cannot be compared, so `auto` and `fallback_models` are refused."

const common = {
  tag: 'Embeddings',
  description: DESCRIPTION,
  pathParameters: geminiPathParameters,
  error: geminiErrorSchema,
} as const

const answer: AnswerFormat = {
  ...dataAnswer,
  withUsage(text, { prompt_tokens, total_tokens, cost_usd }) {
    const usage = { promptTokenCount: prompt_tokens, totalTokenCount: total_tokens, cost_usd }
    return `${text.slice(0, -1)},"usageMetadata":${JSON.stringify(usage)}}`
  },
}

/**
 * Google's Gemini API for embeddings: of one content, and of several. Google's current SDK sends only the second; the AI SDK
 * sends the first for one value.
 */
export const geminiEmbeddingsDialects: readonly ClientDialect[] = [
  templateOf('embedContent', {
    ...common,
    operationId: 'embedContent',
    summary: 'Embed a content',
    body: embedContentRequestSchema,
    answer: embedContentSchema,
    answerDescription: 'The vector. With `dry_run: true`, a quote.',
  }),
  templateOf('batchEmbedContents', {
    ...common,
    operationId: 'batchEmbedContents',
    summary: 'Embed several contents',
    body: batchEmbedContentsRequestSchema,
    answer: batchEmbedContentsSchema,
    answerDescription: 'One vector for each request, in the same order. With `dry_run: true`, a quote.',
  }),
]

function templateOf(method: 'embedContent' | 'batchEmbedContents', operation: DialectOperation): ClientDialect {
  const dialectOf = (model: string): ClientDialect => ({
    path: `/v1beta/models/${model}:${method}`,
    operation,
    parseRequest: body => parseGeminiEmbeddings(body, model, method === 'batchEmbedContents'),
    answer,
    stream: noStream,
    errorBody: geminiErrorBody,
  })
  const template = dialectOf('{model}')
  return {
    ...template,
    ofTarget(target) {
      const parsed = parseGeminiTarget(target)
      return parsed === null ? template : dialectOf(parsed.model)
    },
  }
}
