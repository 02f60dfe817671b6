import { z } from 'zod'
import { chatFieldsSchema } from '../chat/chat-request-schema.ts'
import { routingSchemas } from '../routing-schemas.ts'
import { generationConfigSchema } from './gemini-request-schema.ts'
import { bounds } from './read-contents.ts'

// The schemas of the OpenAPI document. The request is parsed part by part: see gemini-request.ts.

const count = z.int().nonnegative()
const systemInstruction = z
  .looseObject({
    role: z.string().nullish().describe('Has no effect.'),
    parts: z
      .array(z.looseObject({}))
      .describe(
        '`text`, `inlineData`, `fileData`, `functionCall` and `functionResponse`, with their `thoughtSignature`.',
      ),
  })
  .meta({ id: 'GeminiSystemInstruction' })
const content = systemInstruction
  .extend({
    role: z
      .enum(['user', 'model', 'function'])
      .nullish()
      .describe('Default `user`. `function` is an older word for `user`, for results of functions.'),
  })
  .meta({ id: 'GeminiContent' })

const exampleContents = [{ role: 'user', parts: [{ text: 'Hello!' }] }]

export const geminiPathParameters = z.object({
  model: z.string().meta({ description: 'Id of the model. It may contain slashes.', examples: ['llama-3.3-70b'] }),
})

/** The body of `generateContent` and `streamGenerateContent`. */
export const geminiRequestSchema = z
  .looseObject({
    contents: z.array(content).min(1).max(bounds.contents).describe('The whole conversation, oldest first.'),
    systemInstruction: systemInstruction.nullish(),
    tools: z
      .array(z.looseObject({}))
      .max(bounds.functions)
      .nullish()
      .describe('Functions that the client runs, in `functionDeclarations`. Tools of Google are left out.'),
    toolConfig: z.looseObject({}).nullish(),
    generationConfig: generationConfigSchema
      .extend({ maxOutputTokens: chatFieldsSchema.shape.max_tokens })
      .nullish()
      .describe('Other settings than these are dropped.'),
    safetySettings: z.array(z.looseObject({})).nullish().describe('Accepted, and dropped.'),
    cachedContent: z.null().optional().describe('Not supported: send the whole conversation in `contents`.'),
    ...routingSchemas,
    on_insufficient: routingSchemas.on_insufficient.describe(
      'What to do if the balance or a spend limit cannot pay for `maxOutputTokens`: `clamp` it to what can be paid for, or `refuse` the request with 402. Default `clamp`.',
    ),
  })
  .meta({ id: 'GenerateContentRequest', examples: [{ contents: exampleContents }] })

const exampleAnswer = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'Hello!' }] }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11, cost_usd: 0.000013 },
  modelVersion: 'demo',
  createTime: '2026-11-21T09:29:55.000Z',
  responseId: '00000000-0000-7000-8000-000000000001',
}

/** Google's answer with the charge in its usage. */
export const geminiAnswerSchema = z
  .looseObject({
    candidates: z
      .array(
        z.looseObject({
          content: z.looseObject({ role: z.literal('model'), parts: z.array(z.looseObject({})) }),
          finishReason: z.string().optional().describe('`STOP`, `MAX_TOKENS` or `SAFETY`.'),
          index: z.literal(0),
        }),
      )
      .length(1),
    usageMetadata: z
      .looseObject({
        promptTokenCount: count.describe('With the tokens that were read from caches.'),
        candidatesTokenCount: count.describe('Without thoughts.'),
        thoughtsTokenCount: count.optional(),
        cachedContentTokenCount: count.optional(),
        totalTokenCount: count,
        cost_usd: z.number().nonnegative().optional().describe('The charge in USD.'),
      })
      .optional()
      .describe('The billed tokens.'),
    modelVersion: z.string().describe('The model that answered.'),
    createTime: z.iso.datetime(),
    responseId: z.string().describe('The request id of the `x-request-id` header.'),
  })
  .meta({ id: 'GenerateContentResponse', examples: [exampleAnswer] })

/** The body of an error: what `geminiErrorBody` renders. */
export const geminiErrorSchema = z
  .looseObject({
    error: z.looseObject({
      code: z.int().describe('The HTTP status.'),
      message: z.string().describe('What is wrong and what to do. For people.'),
      status: z.string().describe("Google's name of the status."),
      details: z
        .array(z.looseObject({ '@type': z.string() }))
        .describe(
          'An `ErrorInfo`: its `reason` is the code of docs/errors.md. A `RetryInfo` if a later request may succeed.',
        ),
    }),
  })
  .meta({
    id: 'GeminiError',
    examples: [
      {
        error: {
          code: 404,
          message: 'The model `m` does not exist or you do not have access to it. GET /v1/models lists the models.',
          status: 'NOT_FOUND',
          details: [
            {
              '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
              reason: 'model_not_found',
              domain: 'switchyard',
              metadata: { param: 'model' },
            },
          ],
        },
      },
    ],
  })

/** The data of one event of a stream. The last one of a stream that failed is an error. */
export const geminiEventSchema = z
  .union([geminiAnswerSchema, geminiErrorSchema])
  .meta({ id: 'GenerateContentEvent', examples: [exampleAnswer] })

/** A stream without `alt=sse`. */
export const geminiStreamSchema = z
  .array(geminiEventSchema)
  .meta({ id: 'GenerateContentStream', examples: [[exampleAnswer]] })
