import type { ToolCallDelta } from '../../../base/domain/completion.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../../base/runtime/json-object.ts'

/** The maximum number of tool calls of one choice. */
export const TOOL_CALLS_MAX = 128

interface OpenCall {
  readonly index: number
  readonly upstreamIndex: unknown
  /** What the upstream calls it in each delta; the client may get another id. Null if it had none. */
  readonly upstreamId: string | null
  readonly id: string
  nameSent: boolean
  hasArguments: boolean
}

/**
 * Normalises the tool calls of one choice of one stream: numbers them in order, gives each an id, and sends
 * id, type and name once. Some upstreams leave out the index (Gemini), send index 0 for every call, leave out
 * ids, or repeat the name in each delta, which LangChain joins into `get_weatherget_weather`.
 */
export class ToolCalls {
  readonly #idPrefix: string
  readonly #calls: OpenCall[] = []
  /**
   * The start of a call without a name. It is sent once its name arrives, because clients look the name up.
   * Some never get one (LM Studio issue 830).
   */
  #unnamed: JsonObject | null = null

  /** @param idPrefix starts the ids of calls that arrive without one. It must be unique per choice. */
  constructor(idPrefix: string) {
    this.#idPrefix = idPrefix
  }

  get any(): boolean {
    return this.#calls.length > 0
  }

  /**
   * Returns `{}` as the arguments of each function that was called without any, for the end of the choice.
   * OpenAI sends `{}`, and clients fail to parse an empty string (openai-agents-js issue 664).
   */
  missingArguments(): ToolCallDelta[] {
    return this.#calls
      .filter(call => call.nameSent && !call.hasArguments)
      .map(({ index }) => ({ index, function: { arguments: '{}' } }))
  }

  /** Normalises the `tool_calls` of one delta. Returns an empty array if there is nothing to send. */
  read(value: unknown): ToolCallDelta[] {
    if (!Array.isArray(value)) return []
    const deltas: ToolCallDelta[] = []
    for (const item of value) {
      if (!isJsonObject(item)) continue
      const open = this.#continuedCall(item)
      const delta = open ? continuation(item, open) : this.#startCall(item)
      if (delta) deltas.push(delta)
    }
    return deltas
  }

  #continuedCall(item: JsonObject): OpenCall | undefined {
    const id = nonEmptyText(item.id)
    const call = isIndex(item.index)
      ? this.#calls.findLast(open => open.upstreamIndex === item.index)
      : id === null
        ? this.#calls.at(-1)
        : this.#calls.findLast(open => open.upstreamId === id)
    if (!call) return undefined
    const named = isJsonObject(item.function) && nonEmptyText(item.function.name) !== null
    // A second name, under another id or without an index, starts the next call.
    if (named && call.nameSent && (id === null ? !isIndex(item.index) : id !== call.upstreamId)) return undefined
    return call
  }

  #startCall(item: JsonObject): ToolCallDelta | null {
    const index = this.#calls.length
    if (index >= TOOL_CALLS_MAX) return null
    if (!namesTool(item)) {
      this.#unnamed = item
      return null
    }
    const start = this.#unnamed?.index === item.index ? this.#unnamed : null
    this.#unnamed = null
    const given = nonEmptyText(item.id) ?? nonEmptyText(start?.id)
    const id = uniqueCallId(given, this.#calls, this.#idPrefix)
    const call: OpenCall = {
      index,
      upstreamIndex: item.index,
      upstreamId: given,
      id,
      nameSent: false,
      hasArguments: false,
    }
    this.#calls.push(call)
    return { index, id, type: nonEmptyText(item.type) ?? 'function', ...otherFields(item, call, '') }
  }
}

/**
 * True if the delta names the tool. Tools other than functions carry their data in a field named after their
 * type.
 */
function namesTool({ type, function: called }: JsonObject): boolean {
  if (typeof type === 'string' && type !== '' && type !== 'function') return true
  return isJsonObject(called) && nonEmptyText(called.name) !== null
}

function continuation(item: JsonObject, call: OpenCall): ToolCallDelta | null {
  const delta: ToolCallDelta = { index: call.index, ...otherFields(item, call, undefined) }
  return Object.keys(delta).length > 1 ? delta : null
}

/**
 * Returns the function part and unknown fields such as Gemini's `extra_content`, which clients must send back.
 */
function otherFields(
  item: JsonObject,
  call: OpenCall,
  argumentsDefault: string | undefined,
): Omit<ToolCallDelta, 'index'> {
  const fields: Omit<ToolCallDelta, 'index'> = {}
  for (const [key, value] of Object.entries(item)) {
    if (value === null || isPrototypeKey(key) || key === 'index' || key === 'id' || key === 'type') continue
    if (key !== 'function') fields[key] = value
  }
  const called = isJsonObject(item.function) ? item.function : {}
  const name = call.nameSent ? null : nonEmptyText(called.name)
  if (name !== null) call.nameSent = true
  const args = argumentsText(called.arguments) ?? argumentsDefault
  if (args !== undefined && args.trim() !== '') call.hasArguments = true
  if (item.type === 'custom' && called.name === undefined) return fields
  if (name !== null || args !== undefined) {
    fields.function = { ...(name !== null && { name }), ...(args !== undefined && { arguments: args }) }
  }
  return fields
}

/**
 * Returns the id of the next call of an answer. Clients pair results with calls by the id, so one that the answer has already is
 * replaced, as is a missing one.
 */
export function uniqueCallId(
  given: string | null,
  calls: readonly { readonly id?: unknown }[],
  prefix: string,
): string {
  return given !== null && calls.every(({ id }) => id !== given) ? given : `${prefix}${calls.length}`
}

/** Returns arguments as JSON text. Some upstreams send the object itself. */
export function argumentsText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return isJsonObject(value) ? JSON.stringify(value) : undefined
}

function isIndex(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0
}

export function nonEmptyText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** Returns the toolset of a tool call as a field of the call, under Anthropic's name for it. */
export function toolsetField(toolset: string | undefined): { toolset_name?: string } {
  return toolset === undefined ? {} : { toolset_name: toolset }
}
