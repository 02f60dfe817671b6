import { createHash } from 'node:crypto'
import { gatewayFields } from '../../../base/domain/chat-fields.ts'
import { type ChatJob, type ExtraField, fitOf } from '../../../base/domain/chat-job.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { ModelQuirks, Offer, ProviderKind, ToolCallIds } from '../../../base/domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { fitBody } from '../fit/fit-body.ts'
import { isFor } from '../forwarded-body.ts'
import { isWrappedSeal } from '../seal.ts'

/** Appended to the base URL of an endpoint. */
export const CHAT_COMPLETIONS_PATH = '/chat/completions'

/** Returns the identity of an answer. It contains the request id, so that an answer leads to its usage row. */
export function createEnvelope(request: { requestId: string; startedAtEpochMs: number }, model: string): Envelope {
  // `join` makes one flat string. A template literal makes a rope, for which JSON.stringify takes its slow
  // path for the whole answer.
  const id = ['chatcmpl-', request.requestId].join('')
  return { id, created: Math.floor(request.startedAtEpochMs / 1000), model }
}

/**
 * Returns the JSON body for one upstream: the forwarded fields of the job, adapted to the dialect of the
 * endpoint. `maxTokens` is the limit of the ticket, per choice. A stream always requests usage if the dialect
 * allows it.
 */
export function upstreamRequestBody(job: ChatJob, offer: Offer, maxTokens: number): string {
  const { dialect } = offer.endpoint
  const body: JsonObject = { model: offer.upstreamModel, ...job.forward, [dialect.maxTokensField]: maxTokens }
  // Sent even when false, because some servers stream by default (unsloth issue 5047, RAGFlow issue 15442,
  // minimind pull request 851).
  body.stream = job.stream
  for (const field of job.extraFields) if (!isFor(field, offer)) delete body[field.name]
  if (job.stream && dialect.streamOptions) body.stream_options = { include_usage: true }
  if (offer.endpoint.kind !== 'cloud') body.messages = withBothReasonings(body.messages)
  if (dialect.developerToSystem) body.messages = developerAsSystem(body.messages)
  if (job.source === undefined) body.messages = dropWrappedDetails(body.messages)
  body.messages = withToolCallIds(body.messages, dialect.toolCallIds)
  if (hasToolsWithoutReasoning(job, offer.quirks)) body.reasoning_effort = NO_REASONING
  for (const field of fieldsRejectedByModel(job, offer.quirks)) delete body[field]
  const messageFields: string[] = []
  for (const field of dialect.dropFields) {
    if (field.startsWith(MESSAGE_PREFIX)) messageFields.push(field.slice(MESSAGE_PREFIX.length))
    else delete body[field]
  }
  if (messageFields.includes('reasoning_content')) messageFields.push('reasoning', 'reasoning_details')
  if (messageFields.length > 0) body.messages = withoutFields(body.messages, messageFields)
  if (mayNeedFit(body)) fitBody(body, job, offer, 'chat')
  return JSON.stringify(body)
}

/** Returns the fields of a request body, except the gateway's own, that the server of this offer does not get. */
export function droppedFields(job: ChatJob, offer: Offer): readonly string[] {
  const { dropFields } = offer.endpoint.dialect
  const fitted = fitOf(job, offer)?.dropped ?? noFields
  const rejected = [...fieldsRejectedByModel(job, offer.quirks), ...replacedEffort(job, offer.quirks), ...fitted]
  if (job.extraFields.length + dropFields.length + rejected.length === 0) return job.droppedFields
  return [
    ...job.droppedFields,
    ...job.extraFields.filter(field => !isFor(field, offer)).map(({ name }) => name),
    ...new Set([...dropFields, ...rejected].filter(name => Object.hasOwn(job.forward, name))),
  ]
}

/** Whether a body of chat has anything to fit. Most requests have not, and need no copy. */
function mayNeedFit({
  tools,
  functions,
  user,
  safety_identifier: id,
  prompt_cache_key: key,
  messages,
  response_format: format,
  stop,
}: JsonObject): boolean {
  if (tools !== undefined || functions !== undefined || Array.isArray(stop)) return true
  if (user !== undefined || id !== undefined || key !== undefined || format !== undefined) return true
  return Array.isArray(messages) && messages.some(mayBeRefused)
}

function mayBeRefused(message: unknown): boolean {
  if (!isJsonObject(message)) return false
  if (message.tool_calls !== undefined || message.tool_call_id !== undefined) return true
  return message.name !== undefined || typeof message.content !== 'string'
}

const NO_REASONING = 'none'

function hasToolsWithoutReasoning({ forward }: ChatJob, quirks: ModelQuirks | undefined): boolean {
  return quirks?.exclusiveReasoning === true && (forward.tools !== undefined || forward.functions !== undefined)
}

/** Names `reasoning_effort` when the model gets another one than the client asked for. */
function replacedEffort(job: ChatJob, quirks: ModelQuirks | undefined): readonly string[] {
  const { reasoning_effort: effort = NO_REASONING } = job.forward
  return hasToolsWithoutReasoning(job, quirks) && effort !== NO_REASONING ? ['reasoning_effort'] : noFields
}

/** The settings that OpenAI's reasoning models reject while they reason. */
const samplingFields = ['temperature', 'top_p', 'presence_penalty', 'frequency_penalty', 'logprobs', 'top_logprobs']
const noFields: readonly string[] = []

function fieldsRejectedByModel(job: ChatJob, quirks: ModelQuirks | undefined): readonly string[] {
  if (quirks === undefined) return noFields
  if (!quirks.exclusiveReasoning) return quirks.dropFields
  if (hasToolsWithoutReasoning(job, quirks) || job.forward.reasoning_effort === NO_REASONING) return quirks.dropFields
  return [...quirks.dropFields, ...samplingFields]
}

/** Prefixes in `dropFields`: a field of each message, and within it a field of each tool call. */
const MESSAGE_PREFIX = 'messages[].'
const TOOL_CALL_PREFIX = 'tool_calls[].'

function withoutFields(items: unknown, fields: readonly string[]): unknown {
  if (!Array.isArray(items)) return items
  const toolCallFields = fields.flatMap(field =>
    field.startsWith(TOOL_CALL_PREFIX) ? [field.slice(TOOL_CALL_PREFIX.length)] : [],
  )
  return items.map(item => {
    if (!isJsonObject(item)) return item
    const remaining = { ...item }
    for (const field of fields) delete remaining[field]
    if (toolCallFields.length > 0 && 'tool_calls' in remaining)
      remaining.tool_calls = withoutFields(remaining.tool_calls, toolCallFields)
    return remaining
  })
}

/**
 * Servers read the reasoning of earlier turns from either field, depending on their version (vLLM since 0.16:
 * `reasoning`).
 */
function withBothReasonings(messages: unknown): unknown {
  const isHalf = (message: unknown): message is JsonObject =>
    isJsonObject(message) && typeof message.reasoning_content === 'string' && message.reasoning === undefined
  if (!Array.isArray(messages) || !messages.some(isHalf)) return messages
  return messages.map(message => (isHalf(message) ? { ...message, reasoning: message.reasoning_content } : message))
}

function developerAsSystem(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages
  return messages.map(message =>
    isJsonObject(message) && message.role === 'developer' ? { ...message, role: 'system' } : message,
  )
}

/**
 * Returns the messages of a client of chat without the `reasoning_details` that a server of another dialect sealed: no
 * server of chat can read these. Other details stay: the server may have made them.
 */
function dropWrappedDetails(messages: unknown): unknown {
  if (!Array.isArray(messages) || !messages.some(hasWrapped)) return messages
  return messages.map(message => {
    if (!hasWrapped(message)) return message
    const { reasoning_details: details, ...others } = message
    const kept = details.filter(detail => !isWrapped(detail))
    return kept.length === 0 ? others : { ...others, reasoning_details: kept }
  })
}

function hasWrapped(message: unknown): message is { reasoning_details: unknown[] } {
  if (!isJsonObject(message)) return false
  const { reasoning_details: details } = message
  return Array.isArray(details) && details.some(isWrapped)
}

function isWrapped(detail: unknown): boolean {
  return (
    isJsonObject(detail) &&
    [detail.signature, detail.data].some(seal => typeof seal === 'string' && isWrappedSeal(seal))
  )
}

const formats: Readonly<
  Record<Exclude<ToolCallIds, 'any'>, { readonly pattern: RegExp; readonly hashDigits: number }>
> = {
  short: { pattern: /^[\w-]{1,40}$/, hashDigits: 24 },
  nine: { pattern: /^[a-zA-Z0-9]{9}$/, hashDigits: 9 },
}

/**
 * Returns the messages with tool call ids that this upstream accepts. A conversation contains ids from the
 * servers that answered earlier turns: vLLM's have 46 characters but OpenAI accepts 40 (opencode issue
 * 12653), Kimi's contain a dot and a colon, which Anthropic rejects (LiteLLM pull request 34523), and Mistral
 * accepts only nine letters and digits (opencode issue 1680). The same id always maps to the same
 * replacement, in later turns too.
 */
function withToolCallIds(messages: unknown, ids: ToolCallIds): unknown {
  if (ids === 'any' || !Array.isArray(messages)) return messages
  const { pattern, hashDigits } = formats[ids]
  const accepted = (id: unknown) =>
    typeof id !== 'string' || pattern.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, hashDigits)
  return messages.map(message => {
    if (!isJsonObject(message)) return message
    const renamed: JsonObject = { ...message }
    if ('tool_call_id' in message) renamed.tool_call_id = accepted(message.tool_call_id)
    if (Array.isArray(message.tool_calls)) {
      renamed.tool_calls = message.tool_calls.map(call =>
        isJsonObject(call) ? { ...call, id: accepted(call.id) } : call,
      )
    }
    return renamed
  })
}

/**
 * The fields of OpenAI's API that every server gets. Left out because clouds charge extra for them:
 * `service_tier` (priority costs twice as much), `web_search_options` (each search), `prompt_cache_retention` and
 * `prompt_cache_options` (longer storage), `moderation`.
 */
const standardFields: ReadonlySet<string> = new Set([
  ...['messages', 'temperature', 'top_p', 'n', 'stop', 'seed', 'frequency_penalty', 'presence_penalty'],
  ...['logit_bias', 'logprobs', 'top_logprobs', 'response_format', 'reasoning_effort', 'verbosity', 'prediction'],
  ...['tools', 'tool_choice', 'parallel_tool_calls', 'functions', 'function_call', 'modalities', 'audio'],
  ...['user', 'safety_identifier', 'prompt_cache_key', 'store', 'metadata'],
])

/**
 * Settings of vLLM, SGLang, llama.cpp, Ollama and LM Studio that change only how this answer is generated. Local
 * servers and hosters get them; clouds refuse unknown fields. Fields are missing if they cost more than the billed
 * tokens (`best_of`, `use_beam_search`, `prompt_logprobs`), put a request before others (`priority`), address the
 * memory of other requests (`id_slot`, `kv_transfer_params`, `session_params`, `cache_salt`), load something
 * (`lora`, `lora_path`) or run code (`chat_template`, `custom_logit_processor`, `logits_processors`).
 */
const selfHostedFields = [
  ...['top_k', 'top_a', 'min_p', 'typical_p', 'tfs_z', 'top_n_sigma', 'dynatemp_range', 'dynatemp_exponent'],
  ...['repetition_penalty', 'repeat_penalty', 'repeat_last_n', 'mirostat', 'mirostat_tau', 'mirostat_eta'],
  ...['dry_multiplier', 'dry_base', 'dry_allowed_length', 'dry_penalty_last_n', 'dry_sequence_breakers'],
  ...['xtc_probability', 'xtc_threshold', 'stop_token_ids', 'bad_words', 'allowed_token_ids', 'ignore_eos'],
  ...['min_tokens', 'include_stop_str_in_output', 'skip_special_tokens', 'spaces_between_special_tokens'],
  ...['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar', 'structured_outputs'],
  ...['grammar', 'json_schema', 'regex', 'ebnf', 'documents', 'add_generation_prompt', 'continue_final_message'],
  ...['chat_template_kwargs', 'enable_thinking', 'thinking', 'thinking_budget', 'thinking_budget_tokens'],
  ...['reasoning', 'include_reasoning', 'reasoning_format', 'separate_reasoning', 'stream_reasoning'],
]

/** The kinds of servers that get a field besides the standard ones. */
export type ExtraFieldRules = ReadonlyMap<string, ReadonlySet<ProviderKind>>

/**
 * Returns the rules for the fields that only some servers get.
 *
 * @param byKind fields that the configuration adds for a kind of servers
 * @param selfHosted fields that local servers and hosters get
 */
export function extraFieldRules(
  byKind: Partial<Readonly<Record<ProviderKind, readonly string[]>>> = {},
  selfHosted: readonly string[] = selfHostedFields,
): Map<string, Set<ProviderKind>> {
  const rules = new Map<string, Set<ProviderKind>>(selfHosted.map(name => [name, new Set(['local', 'hoster'])]))
  for (const [kind, names] of Object.entries(byKind)) {
    for (const name of names) rules.set(name, new Set(rules.get(name)).add(kind as ProviderKind))
  }
  return rules
}

/** Adds fields that only the endpoints which name them get (`UpstreamQuirks.forwardFields`). */
export function addEndpointFields(rules: Map<string, Set<ProviderKind>>, names: readonly string[]): void {
  for (const name of names) if (!rules.has(name)) rules.set(name, new Set())
}

export interface ForwardedFields {
  /** The fields for the servers, without nulls and fields without effect. */
  readonly forward: JsonObject
  readonly extraFields: readonly ExtraField[]
  readonly droppedFields: readonly string[]
}

/**
 * Splits a request body into the fields that servers get, and the names of those that none gets.
 *
 * @param standard the fields that every server gets; default: those of chat
 */
export function forwardedFields(
  input: JsonObject,
  rules: ExtraFieldRules,
  standard: ReadonlySet<string> = standardFields,
): ForwardedFields {
  const forward: JsonObject = {}
  const extraFields: ExtraField[] = []
  const droppedFields: string[] = []
  for (const name of Object.keys(input)) {
    const value = input[name]
    if (value === null || gatewayFields.has(name)) continue
    if (standard.has(name)) {
      forward[name] = value
      continue
    }
    const kinds = rules.get(name)
    if (kinds === undefined) droppedFields.push(name)
    else {
      forward[name] = value
      extraFields.push({ name, kinds })
    }
  }
  dropWithoutEffect(forward)
  return { forward, extraFields, droppedFields }
}

/**
 * Drops fields that have no effect but that some servers reject. OpenAI and vLLM since 0.20 (pull request
 * 39780) reject an empty list of tools and a tool choice without tools (LiteLLM pull request 39147); vLLM
 * rejects an empty stop sequence; OpenAI rejects metadata unless `store` is set (qwen-code issue 243). Ollama
 * reads an empty list of stop sequences as "never stop" (issue 3629). Whether a request is valid must not
 * depend on the server that gets it.
 */
function dropWithoutEffect(forwarded: JsonObject): void {
  if (isEmptyList(forwarded.tools)) delete forwarded.tools
  if (isEmptyList(forwarded.functions)) delete forwarded.functions
  if (forwarded.tools === undefined) {
    delete forwarded.parallel_tool_calls
    if (isAutoOrNone(forwarded.tool_choice)) delete forwarded.tool_choice
  }
  if (forwarded.functions === undefined && isAutoOrNone(forwarded.function_call)) delete forwarded.function_call
  if (forwarded.stop === '' || isEmptyList(forwarded.stop)) delete forwarded.stop
  if (forwarded.store !== true) delete forwarded.metadata
}

/** True for a choice that demands no tool call. */
function isAutoOrNone(choice: unknown): boolean {
  return choice === 'auto' || choice === 'none'
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}
