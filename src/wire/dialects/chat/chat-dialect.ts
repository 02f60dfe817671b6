import type { z } from 'zod'
import { type ChatJob, type Feature, routingOf } from '../../../base/domain/chat-job.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import type { ClientDialect } from '../client-dialect.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import {
  checkValue,
  mayHaveLoneSurrogates,
  parseJsonObject,
  refuseLongList,
  refuseManyKeys,
  replaceLoneSurrogates,
} from '../json/parse-json.ts'
import { errorBody } from '../openai-error-body.ts'
import { routingBounds } from '../routing-schemas.ts'
import { chatChunkSchema, chatCompletionSchema } from './chat-completion-schema.ts'
import { bounds, type ChatMessage, chatFieldsSchema, chatRequestSchema, messageSchema } from './chat-request-schema.ts'
import { chatStream } from './chat-stream.ts'
import { boundPrompt, promptText } from './prompt-size.ts'
import { type ExtraFieldRules, extraFieldRules, forwardedFields } from './upstream-request.ts'

const OPERATION_DESCRIPTION = `Generates an answer to a conversation. A local server, a hoster or a cloud generates it; its cost is charged to the credit balance. A request that no server answers costs nothing.

**Streams.** With \`stream: true\`, the answer is a stream of server-sent events:

\`\`\`
data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]
\`\`\`

Lines that begin with a colon are keep-alive comments. A complete answer ends with \`data: [DONE]\`. A stream that fails after it was opened ends with an event that holds only an \`error\`, without \`data: [DONE]\`. It is free unless the message says otherwise.

**Other fields.** The body may have further fields of OpenAI, such as \`top_p\`, \`stop\` or \`response_format\`. They are passed on to the server. A field that the server does not get is named in the header \`x-switchyard-dropped-fields\`.`

/**
 * OpenAI's Chat Completions API.
 *
 * @param rules which kinds of servers get fields that OpenAI does not have; default: without additions of the
 *   configuration
 */
export const chatDialectWith = (rules?: ExtraFieldRules): ClientDialect => ({
  path: '/v1/chat/completions',
  operation: {
    operationId: 'createChatCompletion',
    tag: 'Chat',
    summary: 'Create a chat completion',
    description: OPERATION_DESCRIPTION,
    body: chatRequestSchema,
    answer: chatCompletionSchema,
    answerDescription:
      'The completion. With `stream: true`, server-sent events, each with a `ChatCompletionChunk`. With `dry_run: true`, a quote.',
    chunk: chatChunkSchema,
  },
  parseRequest: body => parseChatRequest(body, rules),
  answer: {
    encode: answer => JSON.stringify(answer),
    withUsage: (text, usage) => `${text.slice(0, -1)},"usage":${JSON.stringify(usage)}}`,
  },
  stream: chatStream,
  errorBody,
})

export const chatDialect = chatDialectWith()

const usualRules = extraFieldRules()

/**
 * Parses the body of `POST /v1/chat/completions`. Checks the documented fields strictly, keeps the other fields
 * that servers may get, and removes the rest. Throws ApiError `invalid_json`, `missing_parameter` or
 * `invalid_value`, with the `param` at fault where there is one.
 */
export function parseChatRequest(body: Buffer, rules: ExtraFieldRules = usualRules): ChatJob {
  const input = parseJsonObject(body)
  const fields = checkChatFields(input)
  const messages = checkMessages(input.messages)
  const isCacheControlDropped = dropCacheControl(messages, input.tools)
  const { forward, extraFields, droppedFields } = forwardedFields(input, rules)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(forward)
  const size = boundPrompt(messages, forward)
  const routing = routingOf(fields)
  return {
    task: 'chat',
    model: fields.model,
    constraints: routing.constraints,
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    maxTokens: readMaxTokens(fields),
    onInsufficient: routing.onInsufficient,
    maxCostNanos: routing.maxCostNanos,
    dryRun: routing.dryRun,
    openPreferences: routing.openPreferences,
    choices: fields.n ?? 1,
    hasStop: hasStop(input.stop),
    features: requiredFeatures(messages, input),
    inputTokensBound: size.tokensBound,
    promptText: () => promptText(messages, input),
    promptTextBytes: size.textBytes,
    promptLength: undefined,
    mediaTokensBound: size.mediaTokensBound,
    messageCount: messages.length,
    sessionKey: readSessionKey(input.prompt_cache_key),
    forward,
    extraFields,
    droppedFields: isCacheControlDropped ? [...droppedFields, 'cache_control'] : droppedFields,
  }
}

/** No schema checks `prompt_cache_key`: the server that gets it decides. */
function readSessionKey(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** True if `stop`, which no schema checks, names at least one sequence. */
function hasStop(stop: unknown): boolean {
  return Array.isArray(stop) ? stop.length > 0 : typeof stop === 'string' && stop !== ''
}

function readMaxTokens({ max_tokens: older, max_completion_tokens: newer }: ChatFields): number | null {
  if (typeof older === 'number' && typeof newer === 'number' && older !== newer) {
    throw new ApiError('invalid_value', {
      message: `"max_tokens" (${older}) and "max_completion_tokens" (${newer}) set the same limit but differ. Send one of them.`,
      param: 'max_tokens',
    })
  }
  return newer ?? older ?? null
}

function requiredFeatures(messages: readonly ChatMessage[], input: JsonObject): Set<Feature> {
  const features = new Set<Feature>()
  if (isNonEmptyList(input.tools) || isNonEmptyList(input.functions)) features.add('tools')
  if (isJsonObject(input.response_format) && input.response_format.type === 'json_schema') features.add('json_schema')
  if (Array.isArray(input.modalities) && input.modalities.includes('audio')) features.add('audio')
  for (const { content } of messages) {
    if (!Array.isArray(content)) continue
    for (const part of content) {
      if (part.type === 'image_url') features.add('images')
      else if (part.type === 'input_audio') features.add('audio')
    }
  }
  return features
}

function isNonEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0
}

/**
 * Removes `cache_control` from messages, their parts and tools, in place. Returns whether there was any. Clouds charge
 * up to twice the input price for what they cache (Anthropic, also through OpenRouter), and most servers of chat refuse
 * the field.
 * Parameters of a tool keep their names.
 */
function dropCacheControl(messages: readonly JsonObject[], tools: unknown): boolean {
  let isDropped = false
  const drop = (value: unknown) => {
    if (!isJsonObject(value) || value.cache_control === undefined) return
    delete value.cache_control
    isDropped = true
  }
  for (const message of messages) {
    drop(message)
    if (Array.isArray(message.content)) message.content.forEach(drop)
  }
  if (Array.isArray(tools)) {
    for (const tool of tools) {
      drop(tool)
      if (isJsonObject(tool)) drop(tool.function)
    }
  }
  return isDropped
}

export type ChatFields = z.infer<typeof chatFieldsSchema>

/**
 * The longest lists allowed. They are checked before their items: a million invalid items would produce a
 * million issues.
 */
const listBounds: ReadonlyArray<readonly [field: string, max: number]> = [
  ['messages', bounds.messages],
  ['tools', bounds.tools],
  ['functions', bounds.tools],
  ['fallback_models', routingBounds.fallbackModels],
  ['allow_hosters', routingBounds.hosters],
  ['deny_hosters', routingBounds.hosters],
]

/** Messages with these roles need only a text as their content. */
const plainRoles = new Set<unknown>(['system', 'developer', 'user', 'assistant'])

const fieldChecks = new Map(
  Object.entries(chatFieldsSchema.shape).map(([field, schema]) => [field, fieldCheck(field, schema)]),
)

/** Checks the documented fields of a body, except its messages, in the order they were sent. Throws ApiError. */
export function checkChatFields(input: JsonObject): ChatFields {
  refuseManyKeys(input, '')
  for (const [field, max] of listBounds) refuseLongList(input[field], max, field)
  if (input.model === undefined) checkValue(chatFieldsSchema.shape.model, undefined, 'model')
  for (const field in input) fieldChecks.get(field)?.(input[field])
  return input as ChatFields
}

/** Customers send the same model and limit repeatedly: skips the schema for the last value it accepted. */
function fieldCheck(field: string, schema: z.ZodType): (value: unknown) => void {
  let lastAccepted: unknown
  return value => {
    if (value === lastAccepted) return
    checkValue(schema, value, field)
    // Lists and objects are never the same value twice.
    if (typeof value !== 'object') lastAccepted = value
  }
}

/**
 * Checks the messages, and drops null fields from them in place. Throws ApiError for the first invalid
 * message.
 */
export function checkMessages(value: unknown): ChatMessage[] {
  if (value === undefined || value === null) throw missingField('messages')
  if (!Array.isArray(value) || value.length === 0) {
    throw invalidField('messages', `an array of 1 to ${bounds.messages} messages`, value)
  }
  for (let i = 0; i < value.length; i++) {
    const message: unknown = value[i]
    if (isPlainMessage(message)) continue
    if (isJsonObject(message)) {
      refuseManyKeys(message, `messages[${i}]`)
      refuseLongList(message.content, bounds.partsPerMessage, `messages[${i}].content`)
    }
    checkValue(messageSchema, message, `messages[${i}]`)
    dropNulls(message as JsonObject)
  }
  return value as ChatMessage[]
}

/**
 * Drops null fields and empty lists of tool calls. SDKs send answers back unchanged, with `refusal: null`;
 * Mistral and Groq reject fields they do not know, null or not. OpenAI rejects an empty list of tool calls.
 * Null content stays: upstreams require it next to tool calls.
 */
function dropNulls(message: JsonObject): void {
  for (const key in message) if (message[key] === null && key !== 'content') delete message[key]
  if (Array.isArray(message.tool_calls) && message.tool_calls.length === 0) delete message.tool_calls
}

/**
 * True for a message of only a role and a text, as most are. It skips the schema: that check takes longer than
 * parsing.
 */
function isPlainMessage(message: unknown): boolean {
  if (!isJsonObject(message) || typeof message.content !== 'string' || !plainRoles.has(message.role)) return false
  for (const key in message) if (key !== 'role' && key !== 'content') return false
  return true
}
