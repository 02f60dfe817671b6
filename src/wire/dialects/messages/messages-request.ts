import type { z } from 'zod'
import { type ParsedRequest, type RequestFacts, type RequestFeature, routingOf } from '../../../base/domain/chat-job.ts'
import type {
  CacheHint,
  Conversation,
  Effort,
  Part,
  ReasoningSettings,
  TextPart,
  ToolChoice,
  Turn,
} from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'
import { bounds } from '../chat/chat-request-schema.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import {
  checkValue,
  mayHaveLoneSurrogates,
  parseJsonObject,
  refuseLongList,
  refuseManyKeys,
  replaceLoneSurrogates,
} from '../json/parse-json.ts'
import { routingBounds } from '../routing-schemas.ts'
import { SealReader } from '../seal.ts'
import { AGENT_OUTPUT_FLOOR_TOKENS } from '../translation/job-facts.ts'
import type { ReasoningDisplay } from './answer-blocks.ts'
import { dropServerTools, isCited, messagesToolKind, refuseThread } from './anthropic-tools.ts'
import { namedTools, readTool } from './client-tools.ts'
import { boundMessages, messagesPromptText } from './messages-prompt-size.ts'
import { blockSchema, messageRoleSchema, messagesFieldsSchema } from './messages-request-schema.ts'
import { cacheHint, readBlocks, readTexts } from './read-blocks.ts'

type MessagesFields = z.infer<typeof messagesFieldsSchema>

/** A parsed request of `POST /v1/messages`. */
export interface MessagesRequest extends ParsedRequest {
  readonly dialect: 'messages'
  /** How the answer shows reasoning. */
  readonly reasoningDisplay: ReasoningDisplay
}

/** Agents name the largest limit that they know, so a lower one serves them; chat refuses by default. */
const ON_INSUFFICIENT = 'clamp'

/** Claude Code lists only models with names of Anthropic's, so `GET /v1/models` gives it others with this prefix. */
export const ALIAS_PREFIX = 'claude/'

const listBounds: ReadonlyArray<readonly [field: string, max: number]> = [
  ['messages', bounds.messages],
  ['system', bounds.partsPerMessage],
  ['tools', bounds.tools],
  ['stop_sequences', bounds.partsPerMessage],
  ['fallback_models', routingBounds.fallbackModels],
  ['allow_hosters', routingBounds.hosters],
  ['deny_hosters', routingBounds.hosters],
]

/** The fields that the gateway sets for each server, and its own. */
export const setFields = [
  ...['model', 'max_tokens', 'stream', 'tier', 'privacy_mode', 'trusted_only', 'max_latency_ms', 'fallback_models'],
  ...['allow_hosters', 'deny_hosters', 'on_insufficient', 'max_cost_usd', 'dry_run'],
  ...['max_input_usd_per_million', 'max_output_usd_per_million'],
]

/**
 * Parses the body of `POST /v1/messages`. Checks the documented fields strictly; unknown fields and types of blocks
 * pass. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault where there
 * is one.
 *
 * @param isCounting for `POST /v1/messages/count_tokens`, which has no `max_tokens`
 */
export function parseMessagesRequest(bytes: Buffer, isCounting = false): MessagesRequest {
  const input = parseJsonObject(bytes)
  // A copy: the body loses some of its fields below.
  const fields = { ...checkFields(input, isCounting) }
  refuseThread(input.thread)
  checkContent(input.system, 'system', true)
  checkMessages(input.messages)
  moveOutputFormat(input)
  const droppedFields = [...dropServerTools(input), ...dropUnpriced(input)]
  const { max_tokens: maxTokens, thinking } = fields
  for (const field of setFields) delete input[field]
  for (const field in input) if (input[field] === null) delete input[field]
  if (mayHaveLoneSurrogates(bytes)) replaceLoneSurrogates(input)
  let conversation: Conversation | undefined
  return {
    dialect: 'messages',
    facts: requestFacts(fields, input, isCounting ? null : maxTokens, droppedFields),
    body: input,
    ownFields: ownFields(input),
    ...(Array.isArray(input.tools) && namedTools(input.tools)),
    conversation: () => {
      conversation ??= messagesToConversation(input)
      return conversation
    },
    reasoningDisplay: readDisplay(thinking),
  }
}

/** Clients of the beta send `output_format`; Anthropic knows it as a part of `output_config` now. */
function moveOutputFormat(input: JsonObject): void {
  const { output_format: format, output_config: config } = input
  if (!isJsonObject(format)) return
  delete input.output_format
  const others = isJsonObject(config) ? config : {}
  if (!isJsonObject(others.format)) input.output_config = { ...others, format }
}

function requestFacts(
  fields: MessagesFields,
  body: JsonObject,
  maxTokens: number | null,
  droppedFields: readonly string[],
): RequestFacts {
  const size = boundMessages(body)
  return {
    task: 'chat',
    model: fields.model.startsWith(ALIAS_PREFIX) ? fields.model.slice(ALIAS_PREFIX.length) : fields.model,
    ...routingOf(fields, ON_INSUFFICIENT),
    outputFloorTokens: AGENT_OUTPUT_FLOOR_TOKENS,
    stream: fields.stream ?? false,
    includeUsage: true,
    maxTokens,
    choices: 1,
    hasStop: (fields.stop_sequences?.length ?? 0) > 0,
    features: requiredFeatures(body),
    inputTokensBound: size.tokensBound,
    promptText: () => messagesPromptText(body),
    promptTextBytes: size.textBytes,
    promptLength: undefined,
    sessionKey: null,
    mediaTokensBound: size.mediaTokensBound,
    messageCount: size.messageCount,
    droppedFields,
  }
}

/** The fields that become a part of the conversation. */
const conversationFields: ReadonlySet<string> = new Set([
  ...['messages', 'system', 'tools', 'tool_choice', 'output_config', 'thinking', 'metadata'],
  ...['temperature', 'top_p', 'top_k', 'stop_sequences', 'cache_control'],
])

/** Returns what servers of other dialects do not get, besides hints of the conversation. */
function ownFields(body: JsonObject): string[] {
  const fields = Object.keys(body).filter(field => !conversationFields.has(field))
  const { tools } = body
  const searches = Array.isArray(tools) ? tools.filter(tool => messagesToolKind(tool) === 'search') : []
  return [...fields, ...searches.map(({ type }) => `tools.${type}`)]
}

function checkFields(input: JsonObject, isCounting: boolean): MessagesFields {
  refuseManyKeys(input, '')
  for (const [field, max] of listBounds) refuseLongList(input[field], max, field)
  for (const [field, schema] of Object.entries(messagesFieldsSchema.shape)) {
    const isRequired = field === 'model' || (field === 'max_tokens' && !isCounting)
    if (input[field] !== undefined || isRequired) checkValue(schema, input[field], field)
  }
  return input as MessagesFields
}

function checkMessages(messages: unknown): void {
  if (messages === undefined || messages === null) throw missingField('messages')
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalidField('messages', `an array of 1 to ${bounds.messages} messages`, messages)
  }
  for (let i = 0; i < messages.length; i++) {
    const message: unknown = messages[i]
    checkValue(messageRoleSchema, message, `messages[${i}]`)
    checkContent((message as JsonObject).content, `messages[${i}].content`)
  }
}

function checkContent(content: unknown, at: string, isOptional = false): void {
  if (typeof content === 'string') return
  if (content === undefined || content === null) {
    if (isOptional) return
    throw missingField(at, 'a string or an array of content blocks')
  }
  if (!Array.isArray(content)) throw invalidField(at, 'a string or an array of content blocks', content)
  refuseLongList(content, bounds.partsPerMessage, at)
  for (let i = 0; i < content.length; i++) {
    const block: unknown = content[i]
    const type = isJsonObject(block) ? block.type : undefined
    if (isJsonObject(block)) refuseManyKeys(block, `${at}[${i}]`)
    checkValue(blockSchema(type), block, `${at}[${i}]`)
    const { source, content: inner } = block as JsonObject
    if (type === 'tool_result') checkContent(inner, `${at}[${i}].content`, true)
    if (type === 'document' && isJsonObject(source) && source.type === 'content')
      checkContent(source.content, `${at}[${i}].source.content`)
  }
}

function requiredFeatures({ tools, messages, output_config }: JsonObject): Set<RequestFeature> {
  const features = new Set<RequestFeature>()
  if (Array.isArray(tools) && tools.length > 0) {
    features.add('tools')
    const kinds = new Set(tools.map(tool => messagesToolKind(tool)))
    if (kinds.has('native')) features.add('native_tools')
    // It returns pictures of the screen.
    if (kinds.has('computer')) features.add('images')
  }
  if (isJsonObject(output_config) && isJsonObject(output_config.format)) features.add('json_schema')
  for (const { content } of messages as JsonObject[]) addMediaFeatures(content, features)
  return features
}

function addMediaFeatures(content: unknown, features: Set<RequestFeature>): void {
  if (!Array.isArray(content)) return
  for (const block of content as JsonObject[]) {
    const { type, source, content: inner } = block
    if (type === 'image') features.add('images')
    if (type === 'document') {
      if (isJsonObject(source) && source.type === 'content') addMediaFeatures(source.content, features)
      else if (!isJsonObject(source) || source.type !== 'text') features.add('documents')
    }
    if ((type === 'document' || type === 'search_result') && isCited(block)) features.add('citations')
    if (type === 'tool_result') addMediaFeatures(inner, features)
  }
}

/** Clients that did not ask for thinking expect text in the first block. */
function readDisplay(thinking: MessagesFields['thinking']): ReasoningDisplay {
  if (!thinking || thinking.type === 'disabled') return 'before_tools'
  return thinking.display === 'omitted' ? 'omitted' : 'shown'
}

/** Translates a checked body of `POST /v1/messages`. */
export function messagesToConversation(body: JsonObject): Conversation {
  const seals = new SealReader()
  const turns = (body.messages as JsonObject[]).map(({ role, content }): Turn => {
    const parts = role === 'system' ? readTexts(content) : readBlocks(content, seals)
    return { role: role as Turn['role'], parts }
  })
  const firstTurn = turns.findIndex(({ role }) => role !== 'system')
  const leading = firstTurn === -1 ? turns : turns.slice(0, firstTurn)
  const metadata = isJsonObject(body.metadata) ? body.metadata : {}
  return {
    system: [...readTexts(withoutBillingHeader(body.system)), ...leading.flatMap(({ parts }) => parts as TextPart[])],
    turns: withCacheOnLastPart(firstTurn === -1 ? [] : turns.slice(firstTurn), cacheHint(body.cache_control)),
    tools: Array.isArray(body.tools) ? body.tools.flatMap(readTool) : [],
    ...readToolChoice(body.tool_choice),
    maxOutputTokens: numberOrNull(body.max_tokens),
    sampling: {
      temperature: numberOrNull(body.temperature),
      topP: numberOrNull(body.top_p),
      topK: numberOrNull(body.top_k),
      presencePenalty: null,
      frequencyPenalty: null,
      seed: null,
      stop: Array.isArray(body.stop_sequences) ? (body.stop_sequences as string[]) : [],
    },
    reasoning: readReasoning(body),
    outputFormat: readOutputFormat(body),
    verbosity: null,
    cacheKey: null,
    endUser: textOrNull(metadata.user_id),
  }
}

function readToolChoice(choice: unknown): Pick<Conversation, 'toolChoice' | 'parallelToolCalls'> {
  if (!isJsonObject(choice)) return { toolChoice: null, parallelToolCalls: null }
  const { disable_parallel_tool_use: isSerial } = choice
  return {
    toolChoice: toolChoices[choice.type as string] ?? { kind: 'only', name: choice.name as string },
    parallelToolCalls: typeof isSerial === 'boolean' ? !isSerial : null,
  }
}

const toolChoices: Readonly<Record<string, ToolChoice>> = {
  auto: { kind: 'auto' },
  none: { kind: 'none' },
  any: { kind: 'must' },
}

/** Budgets below these many tokens mean low and medium effort. */
const LOW_BUDGET = 4_096
const MEDIUM_BUDGET = 16_384

function readReasoning({ thinking, output_config }: JsonObject): ReasoningSettings {
  const { type, display, budget_tokens: budget } = isJsonObject(thinking) ? thinking : {}
  const named = isJsonObject(output_config) ? (textOrNull(output_config.effort) as Effort | null) : null
  const isShown = display === 'summarized' ? true : display === 'omitted' ? false : null
  if (type === 'disabled') return { effort: 'none', isShown }
  return { effort: named ?? (typeof budget === 'number' ? effortOfBudget(budget) : null), isShown }
}

function effortOfBudget(tokens: number): Effort {
  if (tokens < LOW_BUDGET) return 'low'
  return tokens < MEDIUM_BUDGET ? 'medium' : 'high'
}

/** The schema of an answer has no name in this dialect, but OpenAI's API requires one. */
const FORMAT_NAME = 'answer'

function readOutputFormat({ output_config }: JsonObject): Conversation['outputFormat'] {
  const format = isJsonObject(output_config) ? output_config.format : null
  if (!isJsonObject(format) || !isJsonObject(format.schema)) return null
  return { kind: 'json_schema', name: FORMAT_NAME, schema: format.schema, description: null, strict: null }
}

/** A hint of the whole body applies to its last part that can have one. */
function withCacheOnLastPart(turns: Turn[], cache: CacheHint | null): Turn[] {
  const last = turns.at(-1)
  const part = last?.parts.at(-1)
  if (cache === null || !last || !part || part.kind === 'reasoning' || part.kind === 'opaque') return turns
  return turns.with(-1, { ...last, parts: last.parts.with(-1, { ...part, cache } as Part) })
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

/**
 * Fields of a body that change what a request costs, run something elsewhere, or let another model answer:
 * servers on the internet, containers, threads, other tiers and regions.
 */
const unpricedFields = [
  ...['service_tier', 'speed', 'inference_geo', 'mcp_servers', 'container', 'thread', 'fallbacks', 'billing_policy'],
  ...['workspace_id', 'user_profile_id'],
]

/** Starts the first system block of Claude Code. Its text differs between sessions. */
const BILLING_HEADER = 'x-anthropic-billing-header:'

/**
 * The keys that these objects may have. Other keys could change what a request costs, or become a part of the prompt
 * that the hold does not cover, and Anthropic refuses them without the header of their beta.
 */
const settingKeys: readonly (readonly [field: string, keys: ReadonlySet<string>])[] = [
  ['output_config', new Set(['effort', 'format'])],
  ['thinking', new Set(['type', 'budget_tokens', 'display'])],
  ['metadata', new Set(['user_id'])],
]

/** Removes what has no price from a body, in place. Returns the names of the fields that were removed. */
export function dropUnpriced(body: JsonObject): string[] {
  const dropped = unpricedFields.filter(field => body[field] !== undefined && body[field] !== null)
  for (const field of unpricedFields) delete body[field]
  if (dropCompaction(body)) dropped.push('context_management.edits')
  for (const [field, keys] of settingKeys) dropped.push(...dropUnknownKeys(body, field, keys))
  return dropped
}

/** Returns the names of the removed keys, such as `output_config.task_budget`. */
function dropUnknownKeys(body: JsonObject, field: string, keys: ReadonlySet<string>): string[] {
  const setting = body[field]
  if (!isJsonObject(setting)) return []
  const given = Object.entries(setting)
  const known = given.filter(([key]) => keys.has(key))
  if (known.length === given.length) return []
  if (known.length === 0) delete body[field]
  else body[field] = Object.fromEntries(known)
  return given.filter(([key, value]) => !keys.has(key) && value !== null).map(([key]) => `${field}.${key}`)
}

/** Compaction is billed outside of the sums of the usage. Other edits of the context only shorten the prompt. */
function dropCompaction(body: JsonObject): boolean {
  const { context_management: management } = body
  if (!isJsonObject(management) || !Array.isArray(management.edits)) return false
  const edits = management.edits.filter(edit => !isJsonObject(edit) || !jsonText(edit.type).startsWith('compact'))
  if (edits.length === management.edits.length) return false
  if (edits.length === 0) delete body.context_management
  else body.context_management = { ...management, edits }
  return true
}

/**
 * Returns the system prompt without the billing header of Claude Code, which only Anthropic uses. Elsewhere it would
 * keep the prefix caches of servers from matching the next session.
 */
export function withoutBillingHeader(system: unknown): unknown {
  return Array.isArray(system) ? system.filter(block => !isBillingHeader(block)) : system
}

function isBillingHeader(block: unknown): boolean {
  return isJsonObject(block) && typeof block.text === 'string' && block.text.startsWith(BILLING_HEADER)
}
