import type { Dialect } from '../../src/base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'

// What the vendors say to the order and the ids of a conversation, written from their documents and error messages and not
// from the rules of the program. Null: they take it.

type Problem = (body: JsonObject) => string | null

const objects = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isJsonObject) : [])
const hasRepeat = (list: readonly unknown[]) => new Set(list).size < list.length
const sameSet = (one: readonly unknown[], other: readonly unknown[]) =>
  one.length === other.length && new Set(one).symmetricDifference(new Set(other)).size === 0

/** OpenAI, chat completions. */
function chatProblem({ messages }: JsonObject): string | null {
  const list = objects(messages)
  const all: unknown[] = []
  for (let at = 0; at < list.length; at++) {
    const { role, tool_calls: calls } = list[at]!
    if (role === 'tool') return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    const ids = objects(calls).map(({ id }) => id)
    all.push(...ids)
    if (role !== 'assistant' || ids.length === 0) continue
    const answered: unknown[] = []
    while (list[at + 1]?.role === 'tool') answered.push(list[++at]!.tool_call_id)
    if (!sameSet(ids, answered)) return "An assistant message with 'tool_calls' must be followed by tool messages"
  }
  return hasRepeat(all) ? 'Duplicate tool call id' : null
}

/** OpenAI, responses. */
function responsesProblem({ input }: JsonObject): string | null {
  const open = new Set<unknown>()
  const all: unknown[] = []
  for (const { type, call_id: id } of objects(input)) {
    if (String(id).length > 64) return `Invalid 'input[].call_id': string too long`
    if (type === 'function_call') {
      all.push(id)
      open.add(id)
    }
    if (type === 'function_call_output' && !open.delete(id)) return 'No tool call found for function call output'
  }
  if (open.size > 0) return 'No tool output found for function call'
  return hasRepeat(all) ? 'Duplicate call_id' : null
}

const text = (words: string): JsonObject => ({ type: 'text', text: words })

/** Anthropic. Neighbours of one role are one turn. */
export function messagesProblem({ messages }: JsonObject): string | null {
  const turns: { role: unknown; blocks: JsonObject[] }[] = []
  for (const { role, content } of objects(messages)) {
    const blocks = typeof content === 'string' ? [text(content)] : (content as JsonObject[])
    if (blocks.length === 0) return 'all messages must have non-empty content'
    if (turns.at(-1)?.role === role) turns.at(-1)!.blocks.push(...blocks)
    else turns.push({ role, blocks: [...blocks] })
  }
  const all: unknown[] = []
  for (const [at, { role, blocks }] of turns.entries()) {
    const blank = (block: JsonObject) => block.type === 'text' && String(block.text).trim() === ''
    if (blocks.some(block => blank(block) || (Array.isArray(block.content) && block.content.some(blank))))
      return 'text content blocks must contain non-whitespace text'
    const ids = (of: typeof blocks | undefined, type: string, key: string) =>
      (of ?? []).filter(block => block.type === type).map(block => block[key])
    const [calls, results] = [ids(blocks, 'tool_use', 'id'), ids(blocks, 'tool_result', 'tool_use_id')]
    all.push(...calls)
    if ([...calls, ...results].some(id => !/^[a-zA-Z0-9_-]+$/.test(String(id)))) return 'String should match pattern'
    if (role === 'assistant') {
      const next = ids(turns[at + 1]?.blocks, 'tool_result', 'tool_use_id')
      if (turns[at + 1] !== undefined && calls.some(id => !next.includes(id)))
        return '`tool_use` ids were found without `tool_result` blocks immediately after'
    } else if (results.some(id => !ids(turns[at - 1]?.blocks, 'tool_use', 'id').includes(id))) {
      return 'unexpected `tool_use_id` found in `tool_result` blocks'
    }
    if (hasRepeat(results)) return 'each tool_use must have a single result'
    const isResult = blocks.map(({ type }) => type === 'tool_result')
    if (isResult.lastIndexOf(true) >= results.length) return '`tool_result` blocks must come first'
  }
  return hasRepeat(all) ? '`tool_use` ids must be unique' : null
}

/** AWS, Bedrock's Converse. */
function converseProblem({ messages }: JsonObject): string | null {
  const list = objects(messages)
  if (list[0]?.role !== 'user') return 'A conversation must start with a user message'
  if (list.some(({ role }, at) => role === list[at - 1]?.role))
    return 'roles must alternate between "user" and "assistant"'
  const blocks = list.map(({ role, content }) => ({
    role,
    content: objects(content).map((block): JsonObject => {
      if (isJsonObject(block.toolUse)) return { type: 'tool_use', id: block.toolUse.toolUseId }
      if (isJsonObject(block.toolResult)) {
        const { toolUseId, content: given } = block.toolResult
        return {
          type: 'tool_result',
          tool_use_id: toolUseId,
          content: objects(given).map(each => text(String(each.text))),
        }
      }
      return block.text === undefined ? block : text(block.text as string)
    }),
  }))
  const ids = blocks.flatMap(({ content }) => content.flatMap(({ id, tool_use_id: result }) => id ?? result ?? []))
  if (ids.some(id => !/^[a-zA-Z0-9_-]{1,64}$/.test(String(id)))) return 'failed to satisfy constraint: length 64'
  return messagesProblem({ messages: blocks })
}

/** Google. Results come as many as calls, in the turn after them. */
function geminiProblem({ contents }: JsonObject): string | null {
  const list = objects(contents)
  const named = (content: JsonObject | undefined, kind: string) =>
    objects(content?.parts).flatMap(part => (isJsonObject(part[kind]) ? [part[kind].name] : []))
  for (const [at, content] of list.entries()) {
    if (objects(content.parts).length === 0) return 'contents.parts must not be empty'
    const [calls, results] = [named(content, 'functionCall'), named(content, 'functionResponse')]
    if (
      calls.length > 0 &&
      list[at + 1] !== undefined &&
      !sameSet(calls.toSorted(), named(list[at + 1], 'functionResponse').toSorted())
    ) {
      return 'the number of function response parts is equal to the number of function call parts'
    }
    if (results.length > 0 && results.length !== named(list[at - 1], 'functionCall').length)
      return 'function response turn comes immediately after a function call turn'
    if (calls.length > 0 && at > 0 && list[at - 1]!.role !== 'user')
      return 'function call turn comes immediately after a user turn or after a function response turn'
  }
  return null
}

export const conversationProblems: Readonly<Record<Dialect, Problem>> = {
  chat: chatProblem,
  responses: responsesProblem,
  messages: messagesProblem,
  gemini: geminiProblem,
  converse: converseProblem,
}
