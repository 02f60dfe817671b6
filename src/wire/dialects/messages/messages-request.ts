import type { z } from 'zod'
import { type ParsedRequest, type RequestFacts, type RequestFeature, routingOf } from '../../../base/domain/chat-job.ts'
import type { Conversation } from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { bounds } from '../chat/chat-request-schema.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { checkValue, refuseLongList, refuseManyKeys } from '../json/check-value.ts'
import { mayHaveLoneSurrogates, replaceLoneSurrogates } from '../json/lone-surrogates.ts'
import { parseJsonObject } from '../json/parse-json.ts'
import { routingBounds } from '../routing-schemas.ts'
import { AGENT_OUTPUT_FLOOR_TOKENS } from '../translation/job-facts.ts'
import type { ReasoningDisplay } from './answer-blocks.ts'
import { isCited } from './anthropic-tools.ts'
import { measureMessages, messagesPromptText } from './messages-prompt-size.ts'
import { blockSchema, messageRoleSchema, messagesFieldsSchema } from './messages-request-schema.ts'
import { messagesToConversation } from './messages-to-conversation.ts'
import { dropServerTools, messagesToolKind } from './server-tools.ts'
import { dropUnpriced } from './unpriced-fields.ts'

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
const setFields = [
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
  checkContent(input.system, 'system', true)
  checkMessages(input.messages)
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
    conversation: () => {
      conversation ??= messagesToConversation(input)
      return conversation
    },
    reasoningDisplay: readDisplay(thinking),
  }
}

function requestFacts(
  fields: MessagesFields,
  body: JsonObject,
  maxTokens: number | null,
  droppedFields: readonly string[],
): RequestFacts {
  const size = measureMessages(body)
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
  ...['messages', 'system', 'tools', 'tool_choice', 'output_config', 'output_format', 'thinking', 'metadata'],
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
    if (tools.some(tool => messagesToolKind(tool) === 'native')) features.add('native_tools')
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
