import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { NO_RESULT } from '../tool-names.ts'
import { UniqueCalls } from './unique-calls.ts'

// What agents send after they have cut their history or were interrupted: blank texts, calls without results, results
// without calls. The vendors refuse the whole conversation from then on (anthropics/claude-code issues 558, 1831, 21392,
// anomalyco/opencode issue 15715). Translated conversations are put in order before they are written.

/**
 * Returns the messages for a server of messages: the given list if nothing is wrong with it. Blank texts and empty
 * messages are left out, each call has an id of its own and one result, before anything else in the next turn of the
 * user, and a result without a call is text.
 */
export function fitMessageTurns(messages: readonly unknown[]): readonly unknown[] {
  const filled = messages.map(withoutBlanks).filter(message => !isEmptyMessage(message))
  // A server names the fault of a conversation without any text better.
  if (filled.length === 0) return messages
  const ended = filled.map((message, at) => (at === filled.length - 1 ? trimmedEnd(message) : message))
  const paired = pairResults(withUniqueIds(ended))
  return isSame(messages, paired) ? messages : paired
}

/** Returns blocks of text without blank ones. */
export function withoutBlankTexts(blocks: readonly unknown[]): readonly unknown[] {
  const kept = blocks.filter(block => !isBlankText(block))
  return kept.length === blocks.length ? blocks : kept
}

function isSame(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((each, at) => each === other[at])
}

function isBlankText(block: unknown): boolean {
  return isJsonObject(block) && block.type === 'text' && typeof block.text === 'string' && block.text.trim() === ''
}

function withoutBlanks(message: unknown): unknown {
  if (!isJsonObject(message) || !Array.isArray(message.content)) return message
  const blocks = withoutBlankTexts(message.content).map(block => {
    if (!isJsonObject(block) || block.type !== 'tool_result' || !Array.isArray(block.content)) return block
    const content = withoutBlankTexts(block.content)
    return content === block.content ? block : { ...block, content }
  })
  return isSame(message.content, blocks) ? message : { ...message, content: blocks }
}

function isEmptyMessage(message: unknown): boolean {
  if (!isJsonObject(message)) return false
  const { content } = message
  return typeof content === 'string' ? content.trim() === '' : Array.isArray(content) && content.length === 0
}

/** An answer that the model shall continue may not end with white space. */
function trimmedEnd(message: unknown): unknown {
  if (!isJsonObject(message) || message.role !== 'assistant' || typeof message.content !== 'string') return message
  const content = message.content.trimEnd()
  return content === message.content ? message : { ...message, content }
}

/** "`tool_use` ids must be unique": some servers number the calls of each answer from 0. */
function withUniqueIds(messages: readonly unknown[]): readonly unknown[] {
  const calls = new UniqueCalls()
  let lastRole: unknown
  return messages.map(message => {
    if (!isJsonObject(message) || !Array.isArray(message.content)) return message
    if (message.role === 'assistant' && lastRole !== 'assistant') calls.beginTurn()
    lastRole = message.role
    const content = message.content.map(block => {
      if (isOf(block, 'tool_use')) return renamed(block, 'id', calls.call(block.id))
      return isOf(block, 'tool_result') ? renamed(block, 'tool_use_id', calls.result(block.tool_use_id)) : block
    })
    return isSame(message.content, content) ? message : { ...message, content }
  })
}

/** `id`: undefined leaves the object as it is. */
function renamed(object: JsonObject, field: string, id: unknown): JsonObject {
  return id === undefined || object[field] === id ? object : { ...object, [field]: id }
}

/** Neighbours of the same role are one turn for the server. */
function pairResults(messages: readonly unknown[]): unknown[] {
  const paired: unknown[] = []
  let open = new Set<unknown>()
  for (let at = 0; at < messages.length; ) {
    const { role } = messages[at] as JsonObject
    let end = at + 1
    while (end < messages.length && (messages[end] as JsonObject).role === role) end++
    const turn = messages.slice(at, end) as JsonObject[]
    if (role === 'user') paired.push(...withResults(turn, open))
    else paired.push(...turn)
    const isAssistant = role === 'assistant'
    // Instructions in the middle of a conversation end no turn.
    if (isAssistant || role === 'user') open = isAssistant ? callsOf(turn) : new Set()
    at = end
  }
  return paired
}

function callsOf(turn: readonly JsonObject[]): Set<unknown> {
  return new Set(turn.flatMap(blocksOf).flatMap(block => (isOf(block, 'tool_use') ? [block.id] : [])))
}

function blocksOf({ content }: JsonObject): readonly unknown[] {
  return Array.isArray(content) ? content : [{ type: 'text', text: content }]
}

function isOf(block: unknown, type: string): block is JsonObject {
  return isJsonObject(block) && block.type === type
}

function withResults(turn: readonly JsonObject[], calls: ReadonlySet<unknown>): JsonObject[] {
  const open = new Set(calls)
  let isOrdered = true
  const results: unknown[] = []
  const rests = turn.map(message =>
    blocksOf(message).flatMap(block => {
      if (!isOf(block, 'tool_result')) {
        isOrdered &&= open.size === 0
        return [block]
      }
      // A second result of a call has none either.
      if (open.delete(block.tool_use_id)) {
        results.push(block)
        return []
      }
      isOrdered = false
      return asText(block)
    }),
  )
  if (isOrdered && open.size === 0) return [...turn]
  const stubs = [...open].map(id => ({ type: 'tool_result', tool_use_id: id, content: NO_RESULT, is_error: true }))
  const first = [...stubs, ...results]
  const ordered = turn.map((message, at) => ({
    ...message,
    content: [...(at === 0 ? first : []), ...(rests[at] ?? [])],
  }))
  return ordered.filter(({ content }) => content.length > 0)
}

function asText({ tool_use_id: id, content }: JsonObject): unknown[] {
  const said = Array.isArray(content) ? content : [{ type: 'text', text: typeof content === 'string' ? content : '' }]
  return [{ type: 'text', text: removedCall(id) }, ...withoutBlankTexts(said)]
}

const removedCall = (id: unknown) => `The result of the tool call ${String(id)}, which was removed:`

/**
 * Returns the messages for a cloud of chat, in the same order: "An assistant message with 'tool_calls' must be followed by
 * tool messages", "messages with role 'tool' must be a response to a preceding message with 'tool_calls'".
 */
export function fitChatPairs(given: readonly unknown[]): readonly unknown[] {
  const messages = withUniqueChatIds(given)
  const paired: unknown[] = []
  for (let at = 0; at < messages.length; ) {
    const message = messages[at++]
    const isResult = isJsonObject(message) && message.role === 'tool'
    if (isResult) at--
    else paired.push(message)
    const open = new Set<unknown>(isResult ? [] : chatCallIds(message))
    const orphans: JsonObject[] = []
    for (; at < messages.length; at++) {
      const next = messages[at]
      if (!isJsonObject(next) || next.role !== 'tool') break
      // A second result of a call has none either.
      if (open.delete(next.tool_call_id)) paired.push(next)
      else orphans.push(next)
    }
    for (const id of open) paired.push({ role: 'tool', tool_call_id: id, content: NO_RESULT })
    for (const { tool_call_id: id, content } of orphans) paired.push({ role: 'user', content: orphanText(id, content) })
  }
  return isSame(given, paired) ? given : paired
}

function withUniqueChatIds(messages: readonly unknown[]): readonly unknown[] {
  const unique = new UniqueCalls()
  return messages.map(message => {
    if (!isJsonObject(message)) return message
    const { role, tool_calls: calls, tool_call_id: resultOf } = message
    if (role === 'tool') return renamed(message, 'tool_call_id', unique.result(resultOf))
    if (role !== 'assistant' || !Array.isArray(calls)) return message
    unique.beginTurn()
    const own = calls.map(call => (isJsonObject(call) ? renamed(call, 'id', unique.call(call.id)) : call))
    return isSame(calls, own) ? message : { ...message, tool_calls: own }
  })
}

function chatCallIds(message: unknown): unknown[] {
  const calls = isJsonObject(message) && message.role === 'assistant' ? message.tool_calls : undefined
  return Array.isArray(calls) ? calls.filter(isJsonObject).map(({ id }) => id) : []
}

function orphanText(id: unknown, content: unknown): unknown {
  if (!Array.isArray(content)) return `${removedCall(id)}\n${typeof content === 'string' ? content : ''}`
  return [{ type: 'text', text: removedCall(id) }, ...content]
}

type OutputType = 'function_call_output' | 'custom_tool_call_output'

/** The items with a call and those with its result, which servers of responses pair. */
const outputsOf: Readonly<Record<string, OutputType>> = {
  function_call: 'function_call_output',
  custom_tool_call: 'custom_tool_call_output',
}

/**
 * Returns the items for a server of responses, in the same order: "No tool output found for function call", "No tool call
 * found for function call output".
 */
export function fitItemPairs(input: readonly unknown[]): readonly unknown[] {
  const unique = { function_call_output: new UniqueCalls(), custom_tool_call_output: new UniqueCalls() }
  const named = input.map(item => {
    if (!isJsonObject(item)) return item
    const { call_id: id } = item
    const type = String(item.type)
    const output = outputOf(item)
    if (output !== undefined) return renamed(item, 'call_id', unique[output].call(id))
    if (!isOutput(type)) return item
    const sent = unique[type].result(id)
    return sent === undefined ? asMessage(item) : renamed(item, 'call_id', sent)
  })
  const open = {
    function_call_output: unique.function_call_output.unanswered(),
    custom_tool_call_output: unique.custom_tool_call_output.unanswered(),
  }
  const paired = named.flatMap(item => {
    const type = isJsonObject(item) ? outputOf(item) : undefined
    if (type === undefined) return [item]
    const { call_id: id } = item as JsonObject
    return open[type].has(id) ? [item, { type, call_id: id, output: NO_RESULT }] : [item]
  })
  return isSame(input, paired) ? input : paired
}

/** Returns the type of the item with the result of a call; undefined if the item is no call. */
function outputOf({ type }: JsonObject): OutputType | undefined {
  return Object.hasOwn(outputsOf, String(type)) ? outputsOf[String(type)] : undefined
}

function isOutput(type: string): type is OutputType {
  return type === 'function_call_output' || type === 'custom_tool_call_output'
}

function asMessage({ call_id: id, output }: JsonObject): JsonObject {
  const content = [
    { type: 'input_text', text: removedCall(id) },
    ...(Array.isArray(output) ? output : [{ type: 'input_text', text: String(output ?? '') }]),
  ]
  return { type: 'message', role: 'user', content }
}

/**
 * The beginnings of the ids of items. "Invalid 'input[0].id': Expected an ID that begins with 'msg'" (openai/codex issue
 * 33176, mastra-ai/mastra issue 10815). Nothing is stored, so an item needs no id.
 */
const itemIds: Readonly<Record<string, RegExp>> = {
  message: /^msg_[\w-]{1,60}$/,
  function_call: /^fc_[\w-]{1,61}$/,
  custom_tool_call: /^ctc_[\w-]{1,60}$/,
  function_call_output: /^fco?_[\w-]{1,60}$/,
  custom_tool_call_output: /^ctco?_[\w-]{1,59}$/,
}

/** Returns an item without an id that OpenAI refuses. */
export function withoutForeignId(item: JsonObject): JsonObject {
  const { id, ...others } = item
  const type = typeof item.type === 'string' ? item.type : 'message'
  const accepted = Object.hasOwn(itemIds, type) ? itemIds[type] : undefined
  return id === undefined || accepted === undefined || accepted.test(String(id)) ? item : others
}
