import type {
  Conversation,
  DocumentPart,
  ImagePart,
  OutputFormat,
  Part,
  TextPart,
  Tool,
  ToolChoice,
  Turn,
} from '../../../base/domain/conversation.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { pairToolCalls } from '../tool-names.ts'
import { mediaUrlOf } from '../translation/media-source.ts'

/** What differs from one attempt to the next. */
export interface RequestTarget {
  /** The upstream's id of the model. */
  readonly model: string
  /** Null: the upstream's default. */
  readonly maxTokens: number | null
  readonly stream: boolean
}

/**
 * Returns the body of a request to a Responses server for a conversation that came in another dialect. The server
 * stores nothing. Leaves out what the dialect cannot express: stop sequences, penalties, seeds, audio, cache points
 * and reasoning that OpenAI did not seal.
 */
export function responsesRequestBody(conversation: Conversation, target: RequestTarget): JsonObject {
  const { system, tools, sampling, reasoning } = conversation
  const items = pairToolCalls(conversation.turns).flatMap(turnItems)
  const [first] = system
  const body: JsonObject = {
    model: target.model,
    input: system.length > 1 ? [message('developer', system), ...items] : items,
    stream: target.stream,
    store: false,
    include: ['reasoning.encrypted_content'],
  }
  if (first !== undefined && system.length === 1) body.instructions = first.text
  if (target.maxTokens !== null) body.max_output_tokens = target.maxTokens
  if (tools.length > 0) {
    body.tools = toolList(tools)
    if (conversation.toolChoice !== null) body.tool_choice = toolChoice(conversation.toolChoice, tools)
    if (conversation.parallelToolCalls !== null) body.parallel_tool_calls = conversation.parallelToolCalls
  }
  if (sampling.temperature !== null) body.temperature = sampling.temperature
  if (sampling.topP !== null) body.top_p = sampling.topP
  if (reasoning.effort !== null || reasoning.isShown) {
    body.reasoning = {
      ...(reasoning.effort !== null && { effort: reasoning.effort }),
      ...(reasoning.isShown && { summary: 'auto' }),
    }
  }
  const { outputFormat, verbosity } = conversation
  if (outputFormat !== null || verbosity !== null) {
    body.text = {
      ...(outputFormat !== null && { format: textFormat(outputFormat) }),
      ...(verbosity !== null && { verbosity }),
    }
  }
  if (conversation.cacheKey !== null) body.prompt_cache_key = conversation.cacheKey
  if (conversation.endUser !== null) body.safety_identifier = conversation.endUser
  return body
}

/** Splits a turn into items: calls, results and reasoning are items of their own. */
function turnItems({ role, parts }: Turn): JsonObject[] {
  const items: JsonObject[] = []
  let content: (TextPart | ImagePart | DocumentPart | Extract<Part, { kind: 'refusal' }>)[] = []
  const endMessage = () => {
    if (content.length > 0) items.push(message(role === 'system' ? 'developer' : role, content))
    content = []
  }
  for (const part of parts) {
    if (part.kind === 'text' || part.kind === 'image' || part.kind === 'document' || part.kind === 'refusal') {
      content.push(part)
      continue
    }
    const item = partItem(part)
    if (item === null) continue
    endMessage()
    items.push(item)
  }
  endMessage()
  return items
}

function partItem(part: Part): JsonObject | null {
  switch (part.kind) {
    case 'tool_call': {
      const { id, name, namespace, toolKind } = part
      const names = { call_id: id, name, ...(namespace !== undefined && { namespace }) }
      return toolKind === 'custom'
        ? { type: 'custom_tool_call', ...names, input: part.arguments }
        : { type: 'function_call', ...names, arguments: part.arguments || '{}' }
    }
    case 'tool_result':
      return {
        type: part.toolKind === 'custom' ? 'custom_tool_call_output' : 'function_call_output',
        call_id: part.callId,
        output: toolOutput(part.isError ? [{ kind: 'text', text: 'The tool failed:' }, ...part.content] : part.content),
      }
    case 'reasoning':
      if (part.seal?.family !== 'openai') return null
      // Without its id, which OpenAI would compare with the one inside the seal.
      return {
        type: 'reasoning',
        summary: part.text === '' ? [] : [{ type: 'summary_text', text: part.text }],
        encrypted_content: part.seal.data,
      }
    case 'opaque':
      return part.dialect === 'responses' ? part.json : null
    default:
      return null
  }
}

function message(role: 'user' | 'assistant' | 'developer', parts: readonly Part[]): JsonObject {
  return { type: 'message', role, content: parts.flatMap(part => contentPart(part, role === 'assistant')) }
}

function contentPart(part: Part, isOutput: boolean): JsonObject[] {
  switch (part.kind) {
    case 'text':
      return [{ type: isOutput ? 'output_text' : 'input_text', text: part.text }]
    case 'refusal':
      return [{ type: 'refusal', refusal: part.text }]
    case 'image':
      return [{ type: 'input_image', image_url: mediaUrlOf(part.source), detail: part.detail ?? 'auto' }]
    case 'document':
      return [
        'url' in part.source
          ? { type: 'input_file', file_url: part.source.url }
          : { type: 'input_file', filename: part.name ?? 'document', file_data: mediaUrlOf(part.source) },
      ]
    default:
      return []
  }
}

function toolOutput(content: readonly Part[]): string | JsonObject[] {
  const [first] = content
  if (first === undefined) return ''
  return content.length === 1 && first.kind === 'text' ? first.text : content.flatMap(part => contentPart(part, false))
}

/** The tools of one namespace are one tool of the type `namespace`, at the place of the first of them. */
function toolList(tools: readonly Tool[]): JsonObject[] {
  const list: JsonObject[] = []
  const namespaces = new Map<string, JsonObject[]>()
  for (const tool of tools) {
    if (tool.namespace === undefined) {
      list.push(toolDefinition(tool))
      continue
    }
    let inner = namespaces.get(tool.namespace)
    if (inner === undefined) {
      inner = []
      namespaces.set(tool.namespace, inner)
      list.push({ type: 'namespace', name: tool.namespace, description: `Tools of ${tool.namespace}`, tools: inner })
    }
    inner.push(toolDefinition(tool))
  }
  return list
}

function toolDefinition({ kind, name, description, parameters, strict, grammar }: Tool): JsonObject {
  const described = { name, ...(description !== null && { description }) }
  if (kind === 'custom') {
    return { type: 'custom', ...described, ...(grammar && { format: { type: 'grammar', ...grammar } }) }
  }
  // Responses makes tools strict by default; the other dialects do not.
  return { type: 'function', ...described, parameters, strict: strict ?? false }
}

function toolChoice(choice: ToolChoice, tools: readonly Tool[]): unknown {
  if (choice.kind !== 'only') return choice.kind === 'must' ? 'required' : choice.kind
  const { name, namespace } = choice
  const tool = tools.find(each => each.name === name && each.namespace === namespace)
  return { type: tool?.kind ?? 'function', name, ...(namespace !== undefined && { namespace }) }
}

function textFormat(format: OutputFormat): JsonObject {
  if (format.kind === 'json') return { type: 'json_object' }
  const { name, schema, description, strict } = format
  return {
    type: 'json_schema',
    name,
    schema,
    ...(description !== null && { description }),
    ...(strict !== null && { strict }),
  }
}
