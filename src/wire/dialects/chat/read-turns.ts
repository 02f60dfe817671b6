import type {
  ImagePart,
  MediaSource,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'
import { readCallSeal } from './call-seal.ts'
import { messageText } from './content.ts'
import { readReasoningDetails } from './reasoning-details.ts'

/** Reads the messages after the first instructions. Neighbouring results of tools form one turn. */
export function readTurns(messages: readonly JsonObject[]): Turn[] {
  const turns: Turn[] = []
  const customCalls = new Set<string>()
  let results: ToolResultPart[] | null = null
  for (const [index, message] of messages.entries()) {
    const { role, content } = message
    if (role === 'tool' || role === 'function') {
      if (results === null) {
        results = []
        turns.push({ role: 'user', parts: results })
      }
      results.push(readResult(message, index, customCalls))
      continue
    }
    results = null
    if (role === 'assistant') turns.push({ role, parts: readAssistant(message, index, customCalls) })
    else if (role === 'user') turns.push({ role, parts: partsOf(content) })
    else turns.push({ role: 'system', parts: textsOf(content) })
  }
  return turns
}

function readAssistant(message: JsonObject, index: number, customCalls: Set<string>): Part[] {
  const { content, refusal, tool_calls, function_call } = message
  const parts: Part[] = [...readReasoning(message), ...partsOf(content)]
  if (isText(refusal) && refusal !== '') parts.push({ kind: 'refusal', text: refusal })
  for (const call of listOf(tool_calls)) {
    const part = readCall(call)
    if (part.toolKind === 'custom') customCalls.add(part.id)
    parts.push(part)
  }
  if (isJsonObject(function_call)) {
    const { name, arguments: args } = function_call
    const called = { name: jsonText(name), arguments: textOrNull(args) ?? '{}' }
    parts.push({ kind: 'tool_call', id: functionCallId(index), toolKind: 'function', ...called })
  }
  return parts
}

/** The older calls of functions have no ids, and the result follows its call. */
function functionCallId(messageIndex: number): string {
  return `call_function_${messageIndex}`
}

function readReasoning({ reasoning_details: details, reasoning_content, reasoning }: JsonObject): ReasoningPart[] {
  const sealed = Array.isArray(details) ? readReasoningDetails(details) : []
  if (sealed.length > 0) return withText(sealed, textOrNull(reasoning_content) ?? textOrNull(reasoning))
  const text = textOrNull(reasoning_content) ?? textOrNull(reasoning)
  return text === null || text === '' ? [] : [{ kind: 'reasoning', text }]
}

/** Seals may come without the text that they belong to: one seal then has that of `reasoning_content`. */
function withText(parts: readonly ReasoningPart[], text: string | null): ReasoningPart[] {
  const [only] = parts
  const lacksText = only !== undefined && parts.length === 1 && only.text === '' && only.seal?.isRedacted !== true
  return lacksText && text !== null ? [{ ...only, text }] : [...parts]
}

function readCall(call: JsonObject): ToolCallPart {
  const seal = readCallSeal(call)
  const common = { kind: 'tool_call' as const, id: call.id as string, ...(seal !== undefined && { seal }) }
  if (isJsonObject(call.custom)) {
    const { name, input } = call.custom
    return { ...common, toolKind: 'custom', name: jsonText(name), arguments: textOrNull(input) ?? '' }
  }
  const { name, arguments: args } = isJsonObject(call.function) ? call.function : {}
  const text = isJsonObject(args) ? JSON.stringify(args) : textOrNull(args)
  return { ...common, toolKind: 'function', name: jsonText(name), arguments: text ?? '{}' }
}

function readResult(
  { role, tool_call_id, content }: JsonObject,
  index: number,
  custom: ReadonlySet<string>,
): ToolResultPart {
  const callId = role === 'function' ? functionCallId(index - 1) : (tool_call_id as string)
  return {
    kind: 'tool_result',
    callId,
    toolKind: custom.has(callId) ? 'custom' : 'function',
    content: partsOf(content).filter(part => part.kind === 'text' || part.kind === 'image' || part.kind === 'document'),
    isError: false,
  }
}

function partsOf(content: unknown): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }]
  return listOf(content).flatMap(readPart)
}

function readPart(part: JsonObject): Part[] {
  switch (part.type) {
    case 'text':
      return [{ kind: 'text', text: part.text as string }]
    case 'refusal':
      return [{ kind: 'refusal', text: part.refusal as string }]
    case 'image_url':
      return [readImage(part.image_url as JsonObject)]
    case 'input_audio': {
      const { data, format } = part.input_audio as JsonObject
      return [{ kind: 'audio', format: format as string, base64: data as string }]
    }
    case 'file':
      return readFile(part.file as JsonObject)
    default:
      return [{ kind: 'opaque', dialect: 'chat', json: part }]
  }
}

function readImage({ url, detail }: JsonObject): ImagePart {
  return { kind: 'image', source: readUrl(url as string), ...(isText(detail) && { detail }) }
}

function readFile({ file_data: data, filename }: JsonObject): Part[] {
  if (!isText(data) || data === '') return []
  const source = data.includes(':') ? readUrl(data) : { mediaType: 'application/pdf', base64: data }
  return [{ kind: 'document', source, ...(isText(filename) && { name: filename }) }]
}

/** Reads a `data:` URL or an address. A `data:` URL that is not base64 is percent-encoded text. */
function readUrl(url: string): MediaSource {
  if (url.slice(0, 5).toLowerCase() !== 'data:') return { url }
  const comma = url.indexOf(',')
  const [mediaType, ...parameters] = comma === -1 ? [] : url.slice(5, comma).split(';')
  const data = url.slice(comma + 1)
  const base64 =
    parameters.at(-1)?.toLowerCase() === 'base64' ? data : Buffer.from(decodePercent(data)).toString('base64')
  return { mediaType: mediaType || 'text/plain', base64 }
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Returns the text of content as one part, or none. */
export function textsOf(content: unknown): TextPart[] {
  const text = messageText(content)
  return text === null || text === '' ? [] : [{ kind: 'text', text }]
}

function listOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
