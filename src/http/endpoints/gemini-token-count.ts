import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { parseGeminiTarget } from '../../wire/dialects/gemini/gemini-path.ts'
import { parseGeminiCount } from '../../wire/dialects/gemini/gemini-request.ts'
import { geminiPathParameters, geminiRequestSchema } from '../../wire/dialects/gemini/gemini-schema.ts'
import type { Endpoint } from '../endpoint.ts'
import { countBody, type TokenCountsDeps } from './token-counts.ts'

const countSchema = z
  .object({ totalTokens: z.int().nonnegative().describe('The tokens of the prompt, as the gateway counts them.') })
  .meta({ id: 'GeminiTokensCount', examples: [{ totalTokens: 9 }] })

const exampleContents = [{ role: 'user', parts: [{ text: 'Hello!' }] }]

/** POST /v1beta/models/{model}:countTokens. Free and sent to no server. Other methods of a model are refused here. */
export function geminiTokenCount(deps: TokenCountsDeps): Endpoint {
  return {
    method: 'POST',
    path: '/v1beta/models/*',
    access: 'key',
    isReport: true,
    doc: {
      operationId: 'countGeminiTokens',
      tag: 'Chat',
      summary: 'Count the input of a Gemini request',
      description:
        'Counts the tokens of a request to `generateContent`, which is not run. Free. The request is the body, or its field `generateContentRequest`.',
      openapiPath: '/v1beta/models/{model}:countTokens',
      pathParameters: geminiPathParameters,
      body: geminiRequestSchema
        .partial({ contents: true })
        .extend({ generateContentRequest: geminiRequestSchema.optional() })
        .meta({
          id: 'CountGeminiTokensRequest',
          anyOf: [{ required: ['contents'] }, { required: ['generateContentRequest'] }],
          examples: [{ contents: exampleContents }],
        }),
      errors: ['model_not_allowed', 'model_not_found', 'not_found'],
      response: { contentType: 'application/json', schema: countSchema, description: 'The count.' },
    },
    async handle(context) {
      const target = parseGeminiTarget(context.request.url)
      if (target?.method !== 'countTokens') throw unservedMethod()
      const count = (body: Buffer) => parseGeminiCount(body, target.model).facts
      return { totalTokens: await countBody(deps, context, count) }
    },
  }
}

function unservedMethod(): ApiError {
  return new ApiError('not_found', {
    message:
      'Models have only the methods generateContent, streamGenerateContent, countTokens, embedContent and batchEmbedContents here.',
  })
}
