import type { z } from 'zod'
import type { ChatJob, Feature } from '../../domain/chat-job.ts'
import { ApiError } from '../../domain/errors.ts'
import { type Nanos, parseUsd } from '../../domain/money.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../runtime/json-object.ts'
import { keyPath } from '../../runtime/key-path.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { mayHaveLoneSurrogates, replaceLoneSurrogates } from '../json/lone-surrogates.ts'
import { parseJsonObject } from '../json/parse-json-object.ts'
import { estimateTokens } from '../tokens/estimate-tokens.ts'
import { bounds, type ChatMessage, chatFieldsSchema, chatRequestSchema, messageSchema } from './chat-request-schema.ts'
import { measurePrompt, promptText } from './prompt-size.ts'

type ChatFields = z.infer<typeof chatFieldsSchema>

/** Array fields whose length is checked before their items: a million wrong items would be a million issues. */
const listBounds: ReadonlyArray<readonly [field: string, max: number]> = [
  ['messages', bounds.messages],
  ['tools', bounds.tools],
  ['functions', bounds.tools],
  ['fallback_models', bounds.fallbackModels],
  ['allow_hosters', bounds.hosters],
  ['deny_hosters', bounds.hosters],
]

/** What is ours, or set anew for each upstream. */
const notForwarded = new Set([
  ...['model', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options'],
  ...['tier', 'privacy_mode', 'trusted_only', 'max_latency_ms', 'fallback_models', 'allow_hosters', 'deny_hosters'],
  ...['on_insufficient', 'max_cost_usd', 'dry_run'],
  // Other names of max_tokens, which win over it (llama.cpp: n_predict): what they ask for beyond it would be free.
  ...['n_predict', 'num_predict', 'max_new_tokens', 'max_output_tokens', 'max_length'],
  // For which clouds charge more than the price that is paid: OpenAI twice as much for `priority`, and searches one by one.
  ...['service_tier', 'web_search_options'],
  // By which OpenRouter answers with another model than the one that is paid.
  ...['models', 'route', 'provider', 'preset', 'plugins'],
  // Names by which other gateways let a caller redirect the request or its credential (CVE-2024-6587): never passed on.
  ...['api_base', 'base_url', 'api_key', 'api_version', 'user_config', 'headers', 'extra_headers', 'extra_body'],
])

const TOKENS_PER_MESSAGE = 3
const noHosters: ReadonlySet<string> = new Set()

/**
 * Parses the body of `POST /v1/chat/completions`. The documented fields are checked strictly, every other OpenAI field
 * is kept for the upstream, and the gateway's own are taken out. Throws ApiError `invalid_json`, `missing_parameter` or
 * `invalid_value`, always with the `param` at fault where there is one.
 */
export function parseChatRequest(body: Buffer): ChatJob {
  const input = parseJsonObject(body)
  refuseManyKeys(input, '')
  for (const [field, max] of listBounds) refuseLongList(input[field], max, field)
  const fields = checkFields(input)
  const messages = checkMessages(input.messages)
  const forward = forwarded(input)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(forward)
  const size = measurePrompt(messages, forward)
  return {
    model: fields.model,
    constraints: {
      serviceTier: fields.tier ?? 'balanced',
      privacyMode: fields.privacy_mode ?? false,
      trustedOnly: fields.trusted_only ?? false,
      maxLatencyMs: fields.max_latency_ms ?? null,
      fallbackModels: fields.fallback_models ?? [],
      allowHosters: fields.allow_hosters ? lowerCaseSet(fields.allow_hosters) : null,
      denyHosters: fields.deny_hosters ? lowerCaseSet(fields.deny_hosters) : noHosters,
    },
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    maxTokens: maxTokensOf(fields),
    onInsufficient: fields.on_insufficient ?? 'refuse',
    maxCostNanos: fields.max_cost_usd ? wholeNanosOf(fields.max_cost_usd) : null,
    dryRun: fields.dry_run ?? false,
    choices: fields.n ?? 1,
    hasStop: hasStop(input.stop),
    features: featuresOf(messages, input),
    inputTokensBound: size.tokensBound,
    promptText: () => promptText(messages, input),
    mediaTokensBound: size.mediaTokensBound,
    messageCount: messages.length,
    forward,
  }
}

/** A sequence or a list of them, which nobody has checked. */
function hasStop(stop: unknown): boolean {
  return Array.isArray(stop) ? stop.length > 0 : typeof stop === 'string' && stop !== ''
}

/** Rounded down where it has more than nine decimals: a cap is never raised. */
function wholeNanosOf(amountUsd: number): Nanos {
  const nearest = amountUsd.toFixed(9)
  const nanos = parseUsd(nearest)!
  return Number(nearest) > amountUsd ? nanos - 1n : nanos
}

/**
 * Prompt tokens by our own count, for an upstream that reports none: text by tokenizer, media at their flat bound. Never above
 * `inputTokensBound`, which the hold was made for; the sample that long texts are counted by could be.
 */
export function countPromptTokens(job: ChatJob): number {
  const textTokens = estimateTokens(job.promptText()) + (job.messageCount + 1) * TOKENS_PER_MESSAGE
  return Math.min(textTokens + job.mediaTokensBound, job.inputTokensBound)
}

const fieldChecks = new Map(
  Object.entries(chatFieldsSchema.shape).map(([field, schema]) => [field, checkOf(field, schema)]),
)

/** Checks the documented fields that are there, in the order they were sent: most requests have three of them. */
function checkFields(input: JsonObject): ChatFields {
  if (input.model === undefined) check(chatFieldsSchema.shape.model, undefined, 'model')
  for (const field in input) fieldChecks.get(field)?.(input[field])
  return input as ChatFields
}

/** Customers ask for the same model and the same limit again and again: what was right the last time is so now. */
function checkOf(field: string, schema: z.ZodType): (value: unknown) => void {
  let lastRight: unknown
  return value => {
    if (value === lastRight) return
    check(schema, value, field)
    // Lists and objects are new each time.
    if (typeof value !== 'object') lastRight = value
  }
}

function checkMessages(value: unknown): ChatMessage[] {
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
    check(messageSchema, message, `messages[${i}]`)
    dropNulls(message as JsonObject)
  }
  return value as ChatMessage[]
}

/**
 * SDKs send our answers back as they are, `refusal: null` included, and Mistral and Groq refuse fields they do not know, null or not. Null content
 * is a value: upstreams ask for it beside tool calls. An empty list of tool calls OpenAI refuses.
 */
function dropNulls(message: JsonObject): void {
  for (const key in message) if (message[key] === null && key !== 'content') delete message[key]
  if (isEmptyList(message.tool_calls)) delete message.tool_calls
}

/** Roles whose messages are valid with a text as their content and nothing else. */
const plainRoles = new Set<unknown>(['system', 'developer', 'user', 'assistant'])

/** Most messages are a role and a text, of which nothing can be wrong: the schema takes longer to say so than parsing takes. */
function isPlainMessage(message: unknown): boolean {
  if (!isJsonObject(message) || typeof message.content !== 'string' || !plainRoles.has(message.role)) return false
  for (const key in message) if (key !== 'role' && key !== 'content') return false
  return true
}

/** OpenAI has some 40 fields; a body of 300,000 would hold up everybody else for a second. */
const KEYS_MAX = 256

function refuseManyKeys(value: JsonObject, param: string): void {
  let keys = 0
  for (const key in value) {
    if (++keys > KEYS_MAX) {
      throw new ApiError('invalid_value', {
        message: `${param === '' ? 'The body' : `"${param}"`} has more than ${KEYS_MAX} fields, such as "${key.slice(0, 40)}". Send only fields of the API.`,
        param: param === '' ? undefined : param,
      })
    }
  }
}

function maxTokensOf({ max_tokens: older, max_completion_tokens: newer }: ChatFields): number | null {
  if (typeof older === 'number' && typeof newer === 'number' && older !== newer) {
    throw new ApiError('invalid_value', {
      message: `"max_tokens" (${older}) and "max_completion_tokens" (${newer}) mean the same here and differ. Send one of them.`,
      param: 'max_tokens',
    })
  }
  return newer ?? older ?? null
}

function featuresOf(messages: readonly ChatMessage[], input: JsonObject): Set<Feature> {
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

function forwarded(input: JsonObject): JsonObject {
  const kept: JsonObject = {}
  for (const key of Object.keys(input)) {
    if (input[key] !== null && isForwarded(key)) kept[key] = input[key]
  }
  dropIdle(kept)
  return kept
}

/**
 * What says nothing, and what is refused for it: OpenAI, and vLLM since 0.20 (pull request 39780), refuse an empty list of tools and a choice among
 * none (LiteLLM pull request 39147), vLLM an empty stop sequence, OpenAI metadata of what is not stored (qwen-code issue 243); Ollama takes an empty
 * list of stop sequences for a wish to stop nowhere (issue 3629). Whether a request is right must not depend on who serves it.
 */
function dropIdle(kept: JsonObject): void {
  if (isEmptyList(kept.tools)) delete kept.tools
  if (isEmptyList(kept.functions)) delete kept.functions
  if (kept.tools === undefined) {
    delete kept.parallel_tool_calls
    if (isAutoOrNone(kept.tool_choice)) delete kept.tool_choice
  }
  if (kept.functions === undefined && isAutoOrNone(kept.function_call)) delete kept.function_call
  if (kept.stop === '' || isEmptyList(kept.stop)) delete kept.stop
  if (kept.store !== true) delete kept.metadata
}

/** Of the two, neither calls for a tool. */
function isAutoOrNone(choice: unknown): boolean {
  return choice === 'auto' || choice === 'none'
}

const plainName = /^[a-z\d_]*$/

function isForwarded(key: string): boolean {
  if (notForwarded.has(key) || isPrototypeKey(key)) return false
  if (plainName.test(key)) return true
  // Servers in Go read `Model` as `model`, and the Kelvin sign and the long s as letters: of two such names the later one counts.
  const name = key.toUpperCase().toLowerCase()
  return !notForwarded.has(name) && !Object.hasOwn(chatRequestSchema.shape, name)
}

/** Checks `value` and throws for the first thing wrong with it. */
function check<Schema extends z.ZodType>(schema: Schema, value: unknown, at: string): z.infer<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const { path, message } = firstIssue(result.error.issues)
  let found = value
  for (const step of path) found = (found as JsonObject | undefined)?.[step as string]
  const param = keyPath(path, at)
  throw found === undefined ? missingField(param, message) : invalidField(param, message, found)
}

/** Inside a union, what is wrong with the branch that got furthest says more than the union itself. */
function firstIssue(
  issues: readonly z.core.$ZodIssue[],
  at: readonly PropertyKey[] = [],
): { path: PropertyKey[]; message: string } {
  const issue = issues[0]!
  const path = [...at, ...issue.path]
  if (issue.code === 'invalid_union') {
    const deeper = issue.errors.find(branch => (branch[0]?.path.length ?? 0) > 0)
    if (deeper) return firstIssue(deeper, path)
  }
  return { path, message: issue.message }
}

function refuseLongList(value: unknown, max: number, param: string): void {
  if (Array.isArray(value) && value.length > max) {
    throw new ApiError('invalid_value', {
      message: `"${param}" must have at most ${max} items; it has ${value.length}.`,
      param,
    })
  }
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function isNonEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0
}

function lowerCaseSet(values: readonly string[]): Set<string> {
  return new Set(values.map(value => value.toLowerCase()))
}
