import { z } from 'zod'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { ChatCompletion, Envelope } from '../../../base/domain/completion.ts'
import { completionToAnswer } from '../chat/chunk-decoder.ts'
import { chatJobOf } from '../chat/conversation-to-chat.ts'
import type { ExtraFieldRules } from '../chat/upstream-request.ts'
import { usageParts } from '../chat/usage.ts'
import type { AnswerFormat, ClientDialect, DialectOperation, StreamFormat } from '../client-dialect.ts'
import { ToolNames } from '../tool-names.ts'
import { ClientToolCalls, costField, TranslatedStream } from '../translated-stream.ts'
import { geminiErrorBody } from './gemini-error-body.ts'
import { type GeminiTarget, parseGeminiTarget } from './gemini-path.ts'
import { parseGeminiRequest } from './gemini-request.ts'
import {
  geminiAnswerSchema,
  geminiErrorSchema,
  geminiEventSchema,
  geminiPathParameters,
  geminiRequestSchema,
  geminiStreamSchema,
} from './gemini-schema.ts'
import { GeminiEncoder, isCompleteGeminiAnswer, wholeGeminiAnswer } from './gemini-stream.ts'
import { geminiUsage } from './gemini-usage.ts'
import { isCompleteJsonArray, JsonArray, JsonArrayStream } from './json-array-stream.ts'
import type { ThoughtDisplay } from './part-writer.ts'

const DESCRIPTION = `Generates an answer to a conversation in the form of Google's Gemini API. Limits, holds, receipts and routing are those of chat. The key may also be sent as \`x-goog-api-key\` or in the query as \`key\`. \`/v1/models/\` in the path means the same.

Nothing is stored: \`cachedContent\` is refused. Functions run at the client; tools that Google's servers would run are left out, or refused if \`toolConfig\` demands a call. Settings that no server here knows are dropped, and \`x-switchyard-dropped-fields\` names them. \`maxOutputTokens\` is lowered to what the model and the balance allow.

Send thoughts and the \`thoughtSignature\` of calls back with the conversation. Signatures also carry the reasoning of models that are not Google's.`

const common = {
  tag: 'Chat',
  description: DESCRIPTION,
  pathParameters: geminiPathParameters,
  body: geminiRequestSchema,
  error: geminiErrorSchema,
} as const

const wholeOperation: DialectOperation = {
  ...common,
  operationId: 'generateContent',
  summary: 'Generate content',
  answer: geminiAnswerSchema,
  answerDescription: 'The answer. With `dry_run: true`, a quote.',
}

const streamOperation: DialectOperation = {
  ...common,
  operationId: 'streamGenerateContent',
  summary: 'Stream content',
  description: `${DESCRIPTION}\n\n**Streams.** With \`?alt=sse\`, the answer is a stream of server-sent events; otherwise it is a JSON array that arrives element by element. The last element has the \`usageMetadata\`, or an \`error\`. An answer that failed is free unless the message says otherwise.`,
  query: z.object({
    alt: z
      .string()
      .default('json')
      .describe('`sse` for server-sent events, which all SDKs ask for; any other value for one JSON array.'),
  }),
  answer: geminiStreamSchema,
  answerDescription:
    'A JSON array of answers. With `?alt=sse`, server-sent events, each with a `GenerateContentEvent`. With `dry_run: true`, a quote.',
  chunk: geminiEventSchema,
}

/** Google's Gemini API: whole answers and streams. The model is a part of the path. */
export function geminiDialectsWith(rules: ExtraFieldRules): readonly [whole: ClientDialect, stream: ClientDialect] {
  return [
    templateOf('/v1beta/models/{model}:generateContent', wholeOperation, rules),
    templateOf('/v1beta/models/{model}:streamGenerateContent', streamOperation, rules),
  ]
}

function templateOf(path: string, operation: DialectOperation, rules: ExtraFieldRules): ClientDialect {
  const dialect = dialectOf(path, operation, null, rules)
  return {
    ...dialect,
    ofTarget(target) {
      const parsed = parseGeminiTarget(target)
      return parsed === null ? dialect : dialectOf(pathOf(parsed), operation, parsed, rules)
    },
  }
}

/** Names what the answer depends on: the stored answers of Idempotency-Keys are kept under it. */
function pathOf({ model, method, isSse }: GeminiTarget): string {
  return `/v1beta/models/${model}:${method}${isSse ? '?alt=sse' : ''}`
}

function dialectOf(
  path: string,
  operation: DialectOperation,
  target: GeminiTarget | null,
  rules: ExtraFieldRules,
): ClientDialect {
  const isStream = target?.method === 'streamGenerateContent'
  return {
    path,
    operation,
    parseRequest: body => chatJobOf(parseGeminiRequest(body, { model: target?.model ?? '', stream: isStream }), rules),
    answer,
    stream: isStream && !target.isSse ? arrayFormat() : sseFormat,
    errorBody: geminiErrorBody,
  }
}

const answer: AnswerFormat = {
  encode(completed, job) {
    // Omit loses the names of fields where a type has unknown ones too.
    const completion = completed as ChatCompletion
    const calls = new ClientToolCalls(namesOf(job))
    const events = completionToAnswer(completion)
      .filter(({ kind }) => kind !== 'usage')
      .flatMap(event => calls.push(event))
    return JSON.stringify(wholeGeminiAnswer(geminiEnvelope(completion), events, { display: displayOf(job) }))
  },
  withUsage(text, usage) {
    const billed = { ...geminiUsage(usageParts(usage)), ...costField(usage) }
    return `${text.slice(0, -1)},"usageMetadata":${JSON.stringify(billed)}}`
  },
}

const sseFormat: StreamFormat = {
  ping: ': ping\n\n',
  encoder(envelope, job) {
    const encoder = new GeminiEncoder(geminiEnvelope(envelope), displayOf(job))
    return new TranslatedStream(envelope, encoder, namesOf(job))
  },
  isComplete: isCompleteGeminiAnswer,
}

/** Returns the format of one answer: its encoders write the same array. */
function arrayFormat(): StreamFormat {
  const array = new JsonArray()
  return {
    contentType: 'application/json; charset=utf-8',
    ping: '\n',
    encoder: (envelope, job) => new JsonArrayStream(sseFormat.encoder(envelope, job), array),
    isComplete: isCompleteJsonArray,
  }
}

/** Thoughts are shown only on demand, as at Google. */
function displayOf({ source }: ChatJob): ThoughtDisplay {
  return source!.conversation().reasoning.isShown === true ? 'shown' : 'hidden'
}

function namesOf({ source }: ChatJob): ToolNames {
  return new ToolNames(source!.conversation())
}

function geminiEnvelope({ id, created, model }: Envelope): Envelope {
  return { id: id.replace(/^chatcmpl-/, ''), created, model }
}
