import type { Part, TextPart, Turn } from '../../../base/domain/conversation.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { checkValue, refuseLongList, refuseManyKeys } from '../json/parse-json.ts'
import { readSeal } from '../seal.ts'
import { mediaSourceOf } from '../translation/media-source.ts'
import { functionCallOf } from './client-tools.ts'
import { readContent, readToolOutput } from './read-content.ts'
import { TOOL_SEARCH, type ToolList } from './read-tools.ts'
import { bounds, type ContentPart, itemSchemas } from './responses-request-schema.ts'

/** What the input says. Instructions before the first turn are in `system`. */
export interface ReadInput {
  readonly system: TextPart[]
  readonly turns: Turn[]
  readonly itemCount: number
}

/**
 * Reads `input`: a text or a list of items. Neighbouring items of the same role become one turn. Tools that items
 * bring are added to `tools`. Throws ApiError for the first invalid item.
 */
export function readInput(input: unknown, tools: ToolList): ReadInput {
  if (input === undefined || input === null) throw missingField('input')
  const reader = new InputReader(tools)
  if (typeof input === 'string') {
    reader.add('user', [{ kind: 'text', text: input }])
    return { system: [], turns: reader.turns, itemCount: 1 }
  }
  if (!Array.isArray(input)) throw invalidField('input', 'a string or an array of items', input)
  refuseLongList(input, bounds.items, 'input')
  for (let i = 0; i < input.length; i++) reader.readItem(input[i], `input[${i}]`)
  if (reader.turns.length === 0 && reader.system.length === 0) {
    throw invalidField('input', 'a string or an array of items with at least one message', input)
  }
  return { system: reader.system, turns: reader.namedTurns(), itemCount: input.length }
}

class InputReader {
  readonly system: TextPart[] = []
  readonly turns: { role: Turn['role']; parts: Part[] }[] = []
  readonly #tools: ToolList
  /** The calls of `local_shell`, by the ids of their items: results may name either. */
  readonly #localCalls = new Map<unknown, string>()
  /** The calls of tools that models know without a definition. */
  readonly #clientCalls = new Set<Part>()

  constructor(tools: ToolList) {
    this.#tools = tools
  }

  add(role: Turn['role'], parts: readonly Part[]): void {
    if (parts.length === 0) return
    const last = this.turns.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else this.turns.push({ role, parts: [...parts] })
  }

  readItem(item: unknown, param: string): void {
    if (!isJsonObject(item)) throw invalidField(param, 'an item object', item)
    refuseManyKeys(item, param)
    const type = item.type ?? (item.role === undefined ? 'item_reference' : 'message')
    if (typeof type !== 'string') throw invalidField(`${param}.type`, 'a string', type)
    if (Array.isArray(item.content)) refuseLongList(item.content, bounds.partsPerItem, `${param}.content`)
    if (Object.hasOwn(itemSchemas, type)) checkValue(itemSchemas[type as keyof typeof itemSchemas], item, param)
    this.#readChecked(type, item, param)
  }

  #readChecked(type: string, item: JsonObject, param: string): void {
    switch (type) {
      case 'message':
        this.#readMessage(item as { role: string; content: string | ContentPart[] })
        return
      case 'function_call':
      case 'custom_tool_call':
      case 'tool_search_call':
        this.add('assistant', [toolCall(type, item)])
        return
      case 'function_call_output':
      case 'custom_tool_call_output':
      case 'tool_search_output':
        this.add('user', [toolResult(type, item)])
        if (type === 'tool_search_output') this.#tools.add(item.tools, `${param}.tools`)
        return
      case 'local_shell_call':
      case 'shell_call':
      case 'apply_patch_call':
      case 'computer_call':
        if (type === 'local_shell_call') this.#localCalls.set(item.id, callIdOf(item))
        this.#addClientCall(item)
        return
      case 'local_shell_call_output':
      case 'shell_call_output':
      case 'apply_patch_call_output':
      case 'computer_call_output':
        this.add('user', [clientToolResult(item, this.#localCalls.get(item.id))])
        return
      case 'additional_tools':
        this.#tools.add(item.tools, `${param}.tools`)
        return
      case 'reasoning':
        this.add('assistant', [reasoning(item)])
        return
      case 'item_reference':
        refuseReference(item, param)
        return
      case 'compaction_trigger':
        throw new ApiError('invalid_value', {
          message: `"${param}.type" must be an item of a conversation. Leave this item out and send the conversation to POST /v1/responses/compact, which compacts it.`,
          param: `${param}.type`,
        })
      default:
        // An item of a tool that a server ran, or of a newer API.
        this.add('assistant', [{ kind: 'opaque', dialect: 'responses', json: item }])
    }
  }

  #addClientCall(item: JsonObject): void {
    const call = clientToolCall(item)
    this.#clientCalls.add(call)
    this.add('assistant', [call])
  }

  /** The name of a call depends on all tools, and items bring further ones. */
  namedTurns(): Turn[] {
    if (this.#clientCalls.size === 0) return this.turns
    const named = (part: Part): Part =>
      part.kind === 'tool_call' && this.#clientCalls.has(part)
        ? { ...part, name: this.#tools.clientToolName(part.name) }
        : part
    return this.turns.map(({ role, parts }) => ({ role, parts: parts.map(named) }))
  }

  #readMessage({ role, content }: { role: string; content: string | ContentPart[] }): void {
    const parts = readContent(content)
    if (role === 'user' || role === 'assistant') {
      this.add(role, parts)
      return
    }
    const texts = parts.filter(part => part.kind === 'text')
    if (this.turns.length === 0) this.system.push(...texts)
    else this.add('system', texts)
  }
}

function toolCall(type: string, item: JsonObject): Part {
  const { namespace } = item
  const isSearch = type === 'tool_search_call'
  const callArguments =
    type === 'custom_tool_call' ? item.input : isSearch ? JSON.stringify(item.arguments ?? {}) : item.arguments
  return {
    kind: 'tool_call',
    id: (item.call_id as string | null | undefined) ?? TOOL_SEARCH,
    name: isSearch ? TOOL_SEARCH : (item.name as string),
    ...(typeof namespace === 'string' && { namespace }),
    toolKind: type === 'custom_tool_call' ? 'custom' : 'function',
    arguments: callArguments as string,
  }
}

function toolResult(type: string, item: JsonObject): Part {
  return {
    kind: 'tool_result',
    callId: (item.call_id as string | null | undefined) ?? TOOL_SEARCH,
    toolKind: type === 'custom_tool_call_output' ? 'custom' : 'function',
    content:
      type === 'tool_search_output'
        ? [{ kind: 'text', text: JSON.stringify({ tools: item.tools }) }]
        : readToolOutput(item.output as string | ContentPart[]),
    isError: false,
  }
}

/** A call of a tool that the client runs, and that only OpenAI's models know: for others it is a call of a function. */
function clientToolCall(item: JsonObject): Part {
  return { kind: 'tool_call', id: callIdOf(item), toolKind: 'function', ...functionCallOf(item) }
}

/** Its output is a text, a list of the outputs of commands, or a picture of the screen. */
function clientToolResult(item: JsonObject, localCallId: string | undefined): Part {
  const { output } = item
  const picture = isJsonObject(output) && typeof output.image_url === 'string' ? output.image_url : null
  return {
    kind: 'tool_result',
    callId: localCallId ?? callIdOf(item),
    toolKind: 'function',
    content:
      picture === null
        ? [{ kind: 'text', text: typeof output === 'string' ? output : JSON.stringify(output ?? item.status ?? '') }]
        : [{ kind: 'image', source: mediaSourceOf(picture) }],
    isError: item.status === 'failed',
  }
}

function callIdOf({ call_id: callId, id }: JsonObject): string {
  return typeof callId === 'string' ? callId : typeof id === 'string' ? id : ''
}

function reasoning(item: JsonObject): Part {
  const summary = (item.summary ?? []) as readonly { readonly text: string }[]
  const content = (item.content ?? []) as readonly { readonly text: string }[]
  const sealed = item.encrypted_content as string | null | undefined
  const text = (summary.length > 0 ? summary : content).map(part => part.text).join('\n\n')
  const seal = sealed ? readSeal(sealed, 'openai') : null
  return { kind: 'reasoning', text, ...(seal !== null && { seal }) }
}

/** Accepts only references to reasoning: @ai-sdk/openai sends them when it believes that answers are stored. */
function refuseReference({ id }: JsonObject, param: string): void {
  if (typeof id === 'string' && id.startsWith('rs_')) return
  throw new ApiError('invalid_value', {
    message: `"${param}" refers to an item by its id, but nothing is stored here. Send the whole item instead (in the AI SDK: store: false).`,
    param,
  })
}
