import type {
  CacheHint,
  Conversation,
  DocumentPart,
  ImagePart,
  MediaSource,
  Part,
  ReasoningPart,
  TextPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../../base/domain/conversation.ts'
import type { ThinkingMode } from '../../../base/domain/offer.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { argumentsObject, customInputArguments, customToolSchema } from '../tool-arguments.ts'
import { flatToolName, pairToolCalls } from '../tool-names.ts'
import { thinkingFields } from './thinking-fields.ts'

/** What a body for one server depends on, besides the conversation. */
export interface MessagesTarget {
  /** The id of the model at the server. */
  readonly model: string
  readonly maxTokens: number
  readonly stream: boolean
  readonly thinking: ThinkingMode
  /** False for models that refuse `temperature`, `top_p` and `top_k`. */
  readonly takesSampling: boolean
  /** The cache hints that have a price: none, those of five minutes, or those of an hour too. */
  readonly caches: 'none' | 'short' | 'long'
}

/** Anthropic refuses more. The last ones cover the longest prefix. */
const CACHE_POINTS_MAX = 4
/** The first turn must be the user's. */
const FIRST_USER_TEXT = 'Continue.'

/**
 * Returns the body of `POST /v1/messages` for a conversation of another dialect. Turns alternate and begin with the
 * user; the results of tools come first in theirs; instructions between turns become text of the user. Reasoning
 * without a seal of Anthropic, audio and parts of other dialects are dropped.
 */
export function conversationToMessages(conversation: Conversation, target: MessagesTarget): JsonObject {
  const { system, sampling, endUser, outputFormat } = conversation
  const turns = pairToolCalls(conversation.turns)
  const messages = alternatingMessages(turns)
  const systemBlocks = system.filter(hasText).map(writeText)
  const tools = writeTools(conversation.tools, turns)
  const thinking = thinkingFields(conversation, turns, target)
  const isThinking = thinking.thinking !== undefined && thinking.thinking.type !== 'disabled'
  const outputConfig = {
    ...(thinking.effort !== undefined && { effort: thinking.effort }),
    ...(outputFormat?.kind === 'json_schema' && { format: { type: 'json_schema', schema: outputFormat.schema } }),
  }
  const body: JsonObject = { model: target.model, max_tokens: target.maxTokens, stream: target.stream, messages }
  if (systemBlocks.length > 0) body.system = systemBlocks
  if (tools.length > 0) {
    body.tools = tools
    const choice = writeToolChoice(conversation)
    if (choice !== null) body.tool_choice = choice
  }
  if (target.takesSampling && !isThinking) {
    // Clients of chat may send up to 2. Newer models refuse both settings together.
    if (sampling.temperature !== null) body.temperature = Math.min(1, sampling.temperature)
    else if (sampling.topP !== null) body.top_p = sampling.topP
    if (sampling.topK !== null) body.top_k = sampling.topK
  }
  if (sampling.stop.length > 0) body.stop_sequences = sampling.stop
  if (endUser !== null) body.metadata = { user_id: endUser }
  if (thinking.thinking !== undefined) body.thinking = thinking.thinking
  if (Object.keys(outputConfig).length > 0) body.output_config = outputConfig
  limitCachePoints(body, target.caches)
  return body
}

type Message = { role: 'user' | 'assistant'; content: JsonObject[] }

/** Joins neighbours of the same role. */
function alternatingMessages(turns: readonly Turn[]): Message[] {
  const messages: Message[] = []
  for (const { role, parts } of turns) {
    const content = parts.flatMap(part => writePart(part))
    if (content.length === 0) continue
    const messageRole = role === 'assistant' ? 'assistant' : 'user'
    const last = messages.at(-1)
    if (last?.role === messageRole) last.content.push(...content)
    else messages.push({ role: messageRole, content })
  }
  if (messages[0]?.role !== 'user')
    messages.unshift({ role: 'user', content: [{ type: 'text', text: FIRST_USER_TEXT }] })
  trimPrefill(elementAt(messages, messages.length - 1))
  return messages
}

/** Anthropic refuses a last turn of the assistant that ends in white space. */
function trimPrefill({ role, content }: Message): void {
  const last = content.at(-1)
  if (role === 'assistant' && last?.type === 'text') last.text = (last.text as string).trimEnd()
}

function writePart(part: Part): JsonObject[] {
  switch (part.kind) {
    case 'text':
      return hasText(part) ? [writeText(part)] : []
    case 'refusal':
      return hasText(part) ? [{ type: 'text', text: part.text }] : []
    case 'image':
      return [writeImage(part)]
    case 'document':
      return [writeDocument(part)]
    case 'tool_call':
      return [writeToolCall(part)]
    case 'tool_result':
      return [writeToolResult(part)]
    case 'reasoning':
      return writeReasoning(part)
    case 'opaque':
      return part.dialect === 'messages' ? [{ ...part.json }] : []
    case 'audio':
      return []
  }
}

/** Anthropic refuses empty texts and texts of white space alone. */
function hasText({ text }: { readonly text: string }): boolean {
  return text.trim() !== ''
}

function writeText({ text, cache }: TextPart): JsonObject {
  return { type: 'text', text, ...cacheControl(cache) }
}

function writeImage({ source, cache }: ImagePart): JsonObject {
  return { type: 'image', source: writeSource(source), ...cacheControl(cache) }
}

function writeDocument({ source, name, cache }: DocumentPart): JsonObject {
  return {
    type: 'document',
    source: writeSource(source),
    ...(name !== undefined && { title: name }),
    ...cacheControl(cache),
  }
}

function writeSource(source: MediaSource): JsonObject {
  if ('url' in source) return { type: 'url', url: source.url }
  const { mediaType, base64 } = source
  if (mediaType !== 'text/plain') return { type: 'base64', media_type: mediaType, data: base64 }
  return { type: 'text', media_type: mediaType, data: Buffer.from(base64, 'base64').toString() }
}

function writeToolCall(call: ToolCallPart): JsonObject {
  const { id, toolKind, arguments: args, cache } = call
  const name = flatToolName(call)
  const input = argumentsObject(toolKind === 'custom' ? customInputArguments(args) : args)
  return { type: 'tool_use', id, name, input, ...cacheControl(cache) }
}

function writeToolResult({ callId, content, isError, cache }: ToolResultPart): JsonObject {
  const blocks = content.flatMap(part => writePart(part))
  // A cache point inside of the result would count too; the one of the result covers it.
  for (const block of blocks) delete block.cache_control
  return {
    type: 'tool_result',
    tool_use_id: callId,
    ...(blocks.length > 0 && { content: blocks }),
    ...(isError && { is_error: true }),
    ...cacheControl(cache),
  }
}

/** Anthropic refuses thinking without its own signature, so the whole part is dropped. */
function writeReasoning({ text, seal }: ReasoningPart): JsonObject[] {
  if (seal?.family !== 'anthropic') return []
  if (seal.isRedacted) return [{ type: 'redacted_thinking', data: seal.data }]
  return [{ type: 'thinking', thinking: text, signature: seal.data }]
}

/** Anthropic requires the definition of a tool that an earlier turn called. */
function writeTools(tools: readonly Tool[], turns: readonly Turn[]): JsonObject[] {
  if (tools.length > 0) return tools.map(writeTool)
  const called = new Set<string>()
  for (const { parts } of turns) for (const part of parts) if (part.kind === 'tool_call') called.add(flatToolName(part))
  return [...called].map(name => ({
    name,
    description: 'This tool is no longer available.',
    input_schema: { type: 'object' },
  }))
}

function writeTool(tool: Tool): JsonObject {
  const { kind, description, parameters, strict, cache } = tool
  return {
    name: flatToolName(tool),
    ...(description !== null && { description }),
    input_schema: kind === 'custom' ? customToolSchema : { type: 'object', ...parameters },
    ...(strict !== null && { strict }),
    ...cacheControl(cache),
  }
}

function writeToolChoice({ toolChoice, parallelToolCalls, tools }: Conversation): JsonObject | null {
  if (tools.length === 0 || toolChoice?.kind === 'none') return { type: 'none' }
  const serial = parallelToolCalls === null ? {} : { disable_parallel_tool_use: !parallelToolCalls }
  if (toolChoice === null) return parallelToolCalls === null ? null : { type: 'auto', ...serial }
  if (toolChoice.kind === 'only') return { type: 'tool', name: flatToolName(toolChoice), ...serial }
  return { type: toolChoice.kind === 'must' ? 'any' : 'auto', ...serial }
}

function cacheControl(cache: CacheHint | undefined): { cache_control?: JsonObject } {
  if (cache === undefined) return {}
  return { cache_control: cache === 'long' ? { type: 'ephemeral', ttl: '1h' } : { type: 'ephemeral' } }
}

/** Keeps the last cache points that the server takes, in the order of the prompt: tools, system, messages. */
function limitCachePoints({ tools, system, messages }: JsonObject, caches: MessagesTarget['caches']): void {
  const content = (messages as Message[]).flatMap(message => message.content)
  const blocks = [tools, system, content].flatMap(list => (Array.isArray(list) ? (list as JsonObject[]) : []))
  const points = blocks.filter(block => block.cache_control !== undefined)
  const keptFrom = caches === 'none' ? points.length : points.length - CACHE_POINTS_MAX
  points.forEach((block, index) => {
    if (index < keptFrom) delete block.cache_control
    else if (caches === 'short') block.cache_control = { type: 'ephemeral' }
  })
}
