import type { ToolCallDelta } from '../../domain/completion.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../runtime/json-object.ts'

/** Of one choice. */
export const TOOL_CALLS_MAX = 128

interface OpenCall {
  readonly index: number
  readonly upstreamIndex: unknown
  readonly id: string
  nameSent: boolean
  hasArguments: boolean
}

/**
 * The tool calls of one choice of one stream: gives each an index by order and an id, and sends id, type and name once.
 * Upstreams leave out the index (Gemini), send index 0 for every call, leave out ids, or repeat the name in each delta,
 * which LangChain joins into `get_weatherget_weather`.
 */
export class ToolCalls {
  readonly #idPrefix: string
  readonly #calls: OpenCall[] = []
  /** Begun without a name. A call is one from its name on: LM Studio issue 830 has some that never get one, and clients look the name up. */
  #unnamed: JsonObject | null = null

  /** `idPrefix` starts the ids of calls that come without one; unique per choice. */
  constructor(idPrefix: string) {
    this.#idPrefix = idPrefix
  }

  get any(): boolean {
    return this.#calls.length > 0
  }

  /**
   * For the end of the choice: the arguments of the functions that were called with none. OpenAI sends `{}`; clients parse what they get, and "" is no JSON
   * (openai-agents-js issue 664).
   */
  missingArguments(): ToolCallDelta[] {
    return this.#calls
      .filter(call => call.nameSent && !call.hasArguments)
      .map(({ index }) => ({ index, function: { arguments: '{}' } }))
  }

  /** One upstream delta's `tool_calls`, normalised; empty when there is nothing in it. */
  read(value: unknown): ToolCallDelta[] {
    if (!Array.isArray(value)) return []
    const deltas: ToolCallDelta[] = []
    for (const item of value) {
      if (!isJsonObject(item)) continue
      const known = this.#continued(item)
      const delta = known ? continuation(item, known) : this.#opening(item)
      if (delta) deltas.push(delta)
    }
    return deltas
  }

  #continued(item: JsonObject): OpenCall | undefined {
    const id = nonEmptyText(item.id)
    const call = isIndex(item.index)
      ? this.#calls.findLast(open => open.upstreamIndex === item.index)
      : id === null
        ? this.#calls.at(-1)
        : this.#calls.find(open => open.id === id)
    if (!call) return undefined
    const named = isJsonObject(item.function) && nonEmptyText(item.function.name) !== null
    // A name after the name, under another id or under no index at all, is the next call.
    if (named && call.nameSent && (id === null ? !isIndex(item.index) : id !== call.id)) return undefined
    return call
  }

  #opening(item: JsonObject): ToolCallDelta | null {
    const index = this.#calls.length
    if (index >= TOOL_CALLS_MAX) return null
    if (!namesTool(item)) {
      this.#unnamed = item
      return null
    }
    const begun = this.#unnamed?.index === item.index ? this.#unnamed : null
    this.#unnamed = null
    const id = nonEmptyText(item.id) ?? nonEmptyText(begun?.id) ?? `${this.#idPrefix}${index}`
    const call: OpenCall = { index, upstreamIndex: item.index, id, nameSent: false, hasArguments: false }
    this.#calls.push(call)
    return { index, id, type: nonEmptyText(item.type) ?? 'function', ...rest(item, call, '') }
  }
}

/** Tools other than functions carry their part under the name of their type. */
function namesTool({ type, function: called }: JsonObject): boolean {
  if (typeof type === 'string' && type !== '' && type !== 'function') return true
  return isJsonObject(called) && nonEmptyText(called.name) !== null
}

function continuation(item: JsonObject, call: OpenCall): ToolCallDelta | null {
  const delta: ToolCallDelta = { index: call.index, ...rest(item, call, undefined) }
  return Object.keys(delta).length > 1 ? delta : null
}

/** The function part and unknown fields such as Gemini's `extra_content`, which clients must echo. */
function rest(item: JsonObject, call: OpenCall, argumentsDefault: string | undefined): Omit<ToolCallDelta, 'index'> {
  const kept: Omit<ToolCallDelta, 'index'> = {}
  for (const [key, value] of Object.entries(item)) {
    if (value === null || isPrototypeKey(key) || key === 'index' || key === 'id' || key === 'type') continue
    if (key !== 'function') kept[key] = value
  }
  const said = isJsonObject(item.function) ? item.function : {}
  const name = call.nameSent ? null : nonEmptyText(said.name)
  if (name !== null) call.nameSent = true
  const args = argumentsText(said.arguments) ?? argumentsDefault
  if (args !== undefined && args.trim() !== '') call.hasArguments = true
  if (item.type === 'custom' && said.name === undefined) return kept
  if (name !== null || args !== undefined) {
    kept.function = { ...(name !== null && { name }), ...(args !== undefined && { arguments: args }) }
  }
  return kept
}

/** Arguments are JSON text; some upstreams send the object itself. */
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
