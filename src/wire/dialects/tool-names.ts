import { createHash } from 'node:crypto'
import type {
  ClientToolType,
  Conversation,
  Part,
  ToolCallPart,
  ToolKind,
  ToolResultPart,
  Turn,
} from '../../base/domain/conversation.ts'

/** OpenAI accepts 64 characters, Anthropic and Gemini at least as many. */
const NAME_CHARACTERS_MAX = 64
const HASH_CHARACTERS = 8

const noNames: ReadonlyMap<string, string> = new Map()

/** A tool as the client named it. */
export interface NamedTool {
  readonly name: string
  readonly namespace?: string
  readonly kind: ToolKind
  readonly clientTool?: ClientToolType
}

/**
 * The names of a conversation's tools for upstreams without namespaces: `namespace__name`, shortened with a hash if
 * that is too long. Gives the client's own names back for the calls of the answer.
 */
export class ToolNames {
  readonly #tools = new Map<string, NamedTool>()
  readonly #flatNames: ReadonlyMap<string, string>

  /** @param flatNames the flat names by those that the server got, where these differ */
  constructor({ tools }: Pick<Conversation, 'tools'>, flatNames: ReadonlyMap<string, string> = noNames) {
    this.#flatNames = flatNames
    for (const { kind, name, namespace, clientTool } of tools) {
      const flat = flatToolName({ name, namespace })
      // A tool without a namespace keeps its name if another one flattens to the same.
      if (namespace !== undefined && this.#tools.has(flat)) continue
      const named = { kind, name, ...(namespace !== undefined && { namespace }) }
      if (clientTool === undefined) {
        this.#tools.set(flat, named)
        continue
      }
      this.#tools.set(flat, { ...named, clientTool })
      this.#tools.set(clientCallName(clientTool.replace('_use_preview', '')), { ...named, clientTool })
    }
  }

  /** Returns the tool that an upstream calls by its flat name. A name that no tool has stays as it is. */
  named(sentName: string): NamedTool {
    const flatName = this.#flatNames.get(sentName) ?? sentName
    return this.#tools.get(flatName) ?? { kind: 'function', name: flatName.replace(/^#/, '') }
  }
}

/**
 * Returns the name of a call of a tool that models know without a definition, when the server speaks the client's
 * dialect. No function has such a name.
 */
export function clientCallName(tool: string): string {
  return `#${tool}`
}

/** Returns the name of a tool for an upstream without namespaces: at most 64 characters. */
export function flatToolName({
  name,
  namespace,
}: {
  readonly name: string
  readonly namespace?: string | undefined
}): string {
  if (namespace === undefined) return name
  const flat = `${namespace}__${name}`
  if (flat.length <= NAME_CHARACTERS_MAX) return flat
  const hash = createHash('sha256').update(flat).digest('hex').slice(0, HASH_CHARACTERS)
  // The end differs more between the tools of one server than the beginning.
  return `${flat.slice(0, 15)}_${hash}_${flat.slice(-(NAME_CHARACTERS_MAX - HASH_CHARACTERS - 17))}`
}

/** The result of a call that has none: agents cut their histories, and users interrupt tools. */
export const NO_RESULT = 'There is no result: the call was interrupted, or its result was removed.'

type ReplyPart = Exclude<Part, ToolResultPart>

/**
 * Returns turns in which each tool call has one result, as servers require. Neighbouring assistant turns are joined.
 * The results of a turn's calls follow it at once, in one user turn of their own. A call without a result gets a stub.
 * A result without a call becomes text. A call with the id of an earlier call gets another id, and so does its result.
 */
export function pairToolCalls(turns: readonly Turn[]): Turn[] {
  const paired: Turn[] = []
  const usedIds = new UsedIds()
  let at = 0
  while (at < turns.length) {
    const parts: Part[] = []
    while (turns[at]?.role === 'assistant') parts.push(...turns[at++]!.parts)
    const replies: Turn[] = []
    while (at < turns.length && turns[at]!.role !== 'assistant') replies.push(turns[at++]!)
    const { assistant, idOf } = withUniqueIds(parts, usedIds)
    if (assistant.length > 0) paired.push({ role: 'assistant', parts: assistant })
    paired.push(...resultsFirst(replies, idOf))
  }
  return paired
}

/** The ids of one turn's calls: as they were sent, and as they are now. */
type CallIds = Map<string, { readonly id: string; readonly call: ToolCallPart }>

function withUniqueIds(parts: readonly Part[], usedIds: UsedIds): { assistant: readonly Part[]; idOf: CallIds } {
  const idOf: CallIds = new Map()
  const assistant: Part[] = []
  for (const part of parts) {
    if (part.kind === 'tool_result') continue
    if (part.kind !== 'tool_call') {
      assistant.push(part)
      continue
    }
    const id = usedIds.take(part.id)
    const call = id === part.id ? part : { ...part, id }
    // Of two calls with one id in the same turn, the result belongs to the first.
    idOf.set(idOf.has(part.id) ? id : part.id, { id, call })
    assistant.push(call)
  }
  return { assistant, idOf }
}

class UsedIds {
  readonly #ids = new Set<string>()
  /** The highest number tried for copies of an id. Trying all of them for each copy would be quadratic. */
  readonly #copies = new Map<string, number>()

  /** Returns the wanted id or, if it is used, a copy of it with a number. */
  take(wanted: string): string {
    const start = wanted === '' ? 'call' : wanted
    let id = start
    let copy = this.#copies.get(start) ?? 1
    while (this.#ids.has(id)) id = `${start}_${++copy}`
    if (id !== start) this.#copies.set(start, copy)
    this.#ids.add(id)
    return id
  }
}

function resultsFirst(replies: readonly Turn[], idOf: CallIds): Turn[] {
  const results: ToolResultPart[] = []
  const unanswered = new Map(idOf)
  const others: Turn[] = []
  for (const { role, parts } of replies) {
    const kept: ReplyPart[] = []
    for (const part of parts) {
      if (part.kind !== 'tool_result') {
        kept.push(part)
        continue
      }
      const answered = unanswered.get(part.callId)
      if (answered === undefined) {
        kept.push(...resultAsText(part))
        continue
      }
      unanswered.delete(part.callId)
      results.push(part.callId === answered.id ? part : { ...part, callId: answered.id })
    }
    if (kept.length > 0) others.push({ role, parts: kept })
  }
  for (const { id, call } of unanswered.values()) {
    const content = [{ kind: 'text' as const, text: NO_RESULT }]
    results.push({ kind: 'tool_result', callId: id, toolKind: call.toolKind, content, isError: true })
  }
  return results.length === 0 ? others : [{ role: 'user', parts: results }, ...others]
}

function resultAsText({ callId, content }: ToolResultPart): ReplyPart[] {
  return [{ kind: 'text', text: `The result of the tool call ${callId}, which was removed:` }, ...content]
}
