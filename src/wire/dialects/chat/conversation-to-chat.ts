import type { ChatJob, Feature, ParsedRequest, RequestFeature } from '../../../base/domain/chat-job.ts'
import type {
  Conversation,
  Dialect,
  DocumentPart,
  Effort,
  MediaSource,
  OutputFormat,
  Part,
  ReasoningPart,
  TextPart,
  Tool,
  ToolCallPart,
  ToolChoice,
  ToolResultPart,
  Turn,
} from '../../../base/domain/conversation.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { customInputArguments, customToolSchema } from '../tool-arguments.ts'
import { flatToolName, pairToolCalls } from '../tool-names.ts'
import { untranslatableFields } from '../translation/untranslatable-fields.ts'
import { callSealField } from './call-seal.ts'
import { serverDetails } from './reasoning-details.ts'
import { type ExtraFieldRules, forwardedFields } from './upstream-request.ts'

/** What a body for one server depends on, besides the conversation. */
export interface ChatTarget {
  /** Whether the server knows tools of the type `custom`. Others get functions with one text as argument. */
  readonly takesCustomTools: boolean
  /** Whether the server wants the text of earlier reasoning back, as DeepSeek and Kimi do. */
  readonly takesReasoning: boolean
}

/**
 * Returns the fields of a chat body for a conversation of another dialect, without those that the gateway sets for each
 * server: the model, the limit and `stream`. They take the place of `ChatJob.forward`.
 */
export function conversationToChat(conversation: Conversation, target: ChatTarget): JsonObject {
  const { system, turns, tools, toolChoice, parallelToolCalls, sampling, outputFormat, verbosity } = conversation
  const systemText = joinTexts(system)
  const messages = joinUserMessages(pairToolCalls(turns).flatMap(turn => writeTurn(turn, target)))
  const body: JsonObject = {
    messages: systemText === '' ? messages : [{ role: 'system', content: systemText }, ...messages],
  }
  if (tools.length > 0) {
    body.tools = tools.map(tool => writeTool(tool, target))
    if (toolChoice !== null) body.tool_choice = writeToolChoice(toolChoice, tools, target)
    if (parallelToolCalls !== null) body.parallel_tool_calls = parallelToolCalls
  }
  const optional = {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    seed: sampling.seed,
    stop: sampling.stop.length > 0 ? sampling.stop : null,
    reasoning_effort: conversation.reasoning.effort,
    response_format: outputFormat && writeOutputFormat(outputFormat),
    verbosity,
    prompt_cache_key: conversation.cacheKey,
    safety_identifier: conversation.endUser,
  }
  for (const [field, value] of Object.entries(optional)) if (value !== null) body[field] = value
  return body
}

function writeTurn({ role, parts }: Turn, target: ChatTarget): JsonObject[] {
  if (role === 'assistant') return writeAssistant(parts, target)
  if (role === 'system') return [{ role, content: joinTexts(parts.filter(isText)) }]
  const results = parts.filter(part => part.kind === 'tool_result')
  const others = [...results.flatMap(mediaOfResult), ...parts.filter(part => part.kind !== 'tool_result')]
  const content = others.flatMap(writePart)
  const messages: JsonObject[] = results.map(writeResult)
  if (content.length > 0) messages.push({ role: 'user', content })
  return messages
}

/**
 * Joins neighbouring messages of the user: templates of some local models fail if roles do not alternate. Many of them
 * take only a text where one text is enough.
 */
function joinUserMessages(messages: readonly JsonObject[]): JsonObject[] {
  const joined: JsonObject[] = []
  for (const message of messages) {
    const last = joined.at(-1)
    if (message.role === 'user' && last?.role === 'user') {
      last.content = [...(last.content as JsonObject[]), ...(message.content as JsonObject[])]
    } else joined.push(message)
  }
  for (const message of joined)
    if (message.role === 'user') message.content = plainText(message.content as JsonObject[])
  return joined
}

function plainText(content: readonly JsonObject[]): unknown {
  const [first] = content
  return content.length === 1 && first?.type === 'text' ? first.text : content
}

function writeAssistant(parts: readonly Part[], target: ChatTarget): JsonObject[] {
  const text = joinTexts(parts.filter(isText))
  const refusal = joinTexts(parts.filter(part => part.kind === 'refusal'))
  const calls = parts.filter(part => part.kind === 'tool_call').map(call => writeCall(call, target))
  const reasoning = target.takesReasoning ? reasoningText(parts.filter(part => part.kind === 'reasoning')) : ''
  const details = target.takesReasoning ? serverDetails(parts.filter(part => part.kind === 'reasoning')) : []
  if (text === '' && refusal === '' && calls.length === 0) return []
  return [
    {
      role: 'assistant',
      content: text === '' ? null : text,
      ...(refusal !== '' && { refusal }),
      ...(reasoning !== '' && { reasoning_content: reasoning }),
      ...(details.length > 0 && { reasoning_details: details }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ]
}

/** Reasoning with the seal of another family is not this server's. */
function reasoningText(parts: readonly ReasoningPart[]): string {
  return parts
    .filter(({ seal }) => seal === undefined || seal.family === 'text')
    .map(({ text }) => text)
    .join('')
}

function writeCall(call: ToolCallPart, target: ChatTarget): JsonObject {
  const { id, toolKind, arguments: args, seal } = call
  const name = flatToolName(call)
  if (toolKind === 'custom' && target.takesCustomTools) return { id, type: 'custom', custom: { name, input: args } }
  const text = toolKind === 'custom' ? customInputArguments(args) : args
  const sealField = callSealField(seal?.family === 'google' ? seal : undefined)
  return { id, type: 'function', function: { name, arguments: text }, ...sealField }
}

/** The result of a tool is only text in this dialect. Its images and documents follow as the user's. */
function writeResult({ callId, content, isError }: ToolResultPart): JsonObject {
  const text = joinTexts(content.filter(isText))
  const noText = content.length > 0 ? 'The result follows in the next message.' : isError ? 'The tool failed.' : ''
  const shown = isError && text !== '' ? `The tool failed:\n${text}` : text
  return { role: 'tool', tool_call_id: callId, content: shown === '' ? noText : shown }
}

function mediaOfResult({ callId, content }: ToolResultPart): Part[] {
  const media = content.filter(part => part.kind !== 'text')
  return media.length === 0 ? [] : [{ kind: 'text', text: `From the result of the tool call ${callId}:` }, ...media]
}

function writePart(part: Part): JsonObject[] {
  switch (part.kind) {
    case 'text':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'image': {
      const detail = part.detail === undefined ? {} : { detail: part.detail }
      return [{ type: 'image_url', image_url: { url: writeUrl(part.source), ...detail } }]
    }
    case 'audio':
      return [{ type: 'input_audio', input_audio: { data: part.base64, format: part.format } }]
    case 'document':
      return [writeDocument(part)]
    case 'opaque':
      return part.dialect === 'chat' ? [part.json] : []
    default:
      return []
  }
}

/** A document of plain text becomes text, which every model reads. */
function writeDocument({ source, name }: DocumentPart): JsonObject {
  if ('base64' in source && source.mediaType === 'text/plain') {
    const text = Buffer.from(source.base64, 'base64').toString()
    return { type: 'text', text: name === undefined ? text : `${name}:\n${text}` }
  }
  return { type: 'file', file: { file_data: writeUrl(source), ...(name !== undefined && { filename: name }) } }
}

function writeUrl(source: MediaSource): string {
  return 'url' in source ? source.url : `data:${source.mediaType};base64,${source.base64}`
}

function writeTool(tool: Tool, { takesCustomTools }: ChatTarget): JsonObject {
  const { kind, description, parameters, strict, grammar } = tool
  const named = { name: flatToolName(tool), ...(description !== null && { description }) }
  if (kind === 'custom' && takesCustomTools) {
    return { type: 'custom', custom: { ...named, ...(grammar && { format: { type: 'grammar', grammar } }) } }
  }
  const schema = kind === 'custom' ? customToolSchema : parameters
  return {
    type: 'function',
    function: { ...named, ...(schema !== null && { parameters: schema }), ...(strict !== null && { strict }) },
  }
}

function writeToolChoice(choice: ToolChoice, tools: readonly Tool[], { takesCustomTools }: ChatTarget): unknown {
  if (choice.kind !== 'only') return choice.kind === 'must' ? 'required' : choice.kind
  const name = flatToolName(choice)
  const isCustom = takesCustomTools && tools.some(tool => flatToolName(tool) === name && tool.kind === 'custom')
  return isCustom ? { type: 'custom', custom: { name } } : { type: 'function', function: { name } }
}

function writeOutputFormat(format: OutputFormat): JsonObject {
  if (format.kind === 'json') return { type: 'json_object' }
  const { name, schema, description, strict } = format
  const described = { ...(description !== null && { description }), ...(strict !== null && { strict }) }
  return { type: 'json_schema', json_schema: { name, schema, ...described } }
}

function isText(part: Part): part is TextPart {
  return part.kind === 'text'
}

/** Blocks of text stand apart, as Anthropic renders them. */
function joinTexts(parts: readonly { readonly text: string }[]): string {
  return parts
    .map(({ text }) => text)
    .filter(text => text !== '')
    .join('\n\n')
}

/** Custom tools become functions. A server that does not read reasoning names that in its `dropFields`. */
const chatServer = { takesCustomTools: false, takesReasoning: true } as const

/** vLLM refuses other values; these are the nearest that every server knows. */
const commonEfforts: Partial<Record<Effort, Effort>> = { minimal: 'low', xhigh: 'high', max: 'high' }

/** Features that exist in one dialect only. */
const nativeFeatures: ReadonlySet<RequestFeature> = new Set(['citations', 'native_tools', 'text_enum'])

/** Returns the job of a request of another dialect, with the body for chat servers. */
export function chatJobOf(
  { dialect, body, facts, ownFields = [], ...request }: ParsedRequest,
  rules: ExtraFieldRules,
): ChatJob {
  const features = new Set<Feature>()
  let isNativeOnly = false
  for (const feature of facts.features) {
    if (nativeFeatures.has(feature)) isNativeOnly = true
    // Every kind of server may read documents, and none says so.
    else if (feature !== 'documents') features.add(feature as Feature)
  }
  const conversation = request.conversation()
  if (isEmptyConversation(conversation)) throw emptyConversation(dialect)
  const nativePart = request.nativePart ?? firstNativePart(conversation)
  const { pictureTool, hasKnownTools } = request
  const chatBody = conversationToChat({ ...conversation, turns: conversation.turns.map(withoutSystem) }, chatServer)
  const { effort } = conversation.reasoning
  if (effort !== null) chatBody.reasoning_effort = commonEfforts[effort] ?? effort
  const { forward, extraFields, droppedFields } = forwardedFields(chatBody, rules)
  const { dropped } = untranslatableFields(conversation, 'chat')
  return {
    ...facts,
    features,
    forward,
    extraFields,
    droppedFields: [...new Set([...facts.droppedFields, ...ownFields, ...dropped, ...droppedFields])],
    source: {
      dialect,
      body,
      ownFields,
      ...((isNativeOnly || nativePart !== null) && { isNativeOnly: true as const }),
      ...(nativePart !== null && { nativePart }),
      ...(pictureTool !== undefined && { pictureTool }),
      ...(hasKnownTools && { hasKnownTools }),
      conversation: () => conversation,
    },
  }
}

/** Servers refuse such a request in many ways, and some answer to what was never said. */
function isEmptyConversation({ system, turns }: Conversation): boolean {
  return !system.some(hasSaid) && turns.every(({ parts }) => !parts.some(hasSaid))
}

function hasSaid(part: Part): boolean {
  return !('text' in part) || part.text !== ''
}

const conversationFields: Readonly<Partial<Record<Dialect, string>>> = {
  messages: 'messages',
  responses: 'input',
  gemini: 'contents',
}

function emptyConversation(dialect: Dialect): ApiError {
  const param = conversationFields[dialect]
  return new ApiError('invalid_value', {
    param,
    message: `"${param}" must say something: no text, media, call or result is left of it.`,
  })
}

/** What servers did on their own. Models understand the rest of the conversation without it. */
const serverWork: ReadonlySet<string> = new Set([
  ...['web_search_call', 'file_search_call', 'code_interpreter_call', 'image_generation_call', 'tool_search_call'],
  ...['server_tool_use', 'web_search_tool_result', 'web_fetch_tool_result', 'code_execution_tool_result'],
  ...['bash_code_execution_tool_result', 'text_editor_code_execution_tool_result', 'tool_search_tool_result'],
  ...['executableCode', 'codeExecutionResult'],
])

/** Returns the type of the first part that only servers of its own dialect understand; null if there is none. */
function firstNativePart({ turns }: Conversation): string | null {
  for (const { parts } of turns) {
    for (const part of parts) {
      if (part.kind !== 'opaque') continue
      const { type } = part.json
      const name = typeof type === 'string' ? type : (Object.keys(part.json)[0] ?? '')
      if (!serverWork.has(name)) return name.slice(0, 64)
    }
  }
  return null
}

/** The templates of many local models refuse instructions after the first turn, so the user says them. */
function withoutSystem(turn: Turn): Turn {
  return turn.role === 'system' ? { role: 'user', parts: turn.parts } : turn
}
