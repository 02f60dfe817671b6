import type { ChatChunk, ChatCompletion, CompletionChoice, Envelope } from '../../domain/completion.ts'
import { UpstreamFailure } from '../../domain/upstream-failure.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../runtime/json-object.ts'
import { parseUpstreamJson } from '../json/parse-upstream-json.ts'
import { type ExpectedAnswer, isEmptyAnswer } from './empty-answer.ts'
import { failureOfError } from './failure-of-error.ts'
import { finishReasonAfter, readFinishReason } from './finish-reason.ts'
import { messageText, thinkingText } from './message-text.ts'
import { readUsage } from './read-usage.ts'
import { argumentsText, nonEmptyText, TOOL_CALLS_MAX } from './tool-calls.ts'
import { readUpstreamError } from './upstream-error.ts'

/**
 * Turns an upstream's whole answer (status 200) into what OpenAI would send.
 * Throws UpstreamFailure: `malformed` when it is no completion, `empty` without any output, or what an error body means.
 */
export function normaliseCompletion(text: string, envelope: Envelope, expected: ExpectedAnswer): ChatCompletion {
  const body = parse(text)
  const error = readUpstreamError(body)
  if (error) throw failureOfError(null, error)
  if (!Array.isArray(body.choices)) throw new UpstreamFailure('malformed', 'The answer has no choices.')
  const choices: CompletionChoice[] = []
  for (const raw of body.choices.slice(0, expected.choices)) {
    if (isJsonObject(raw)) choices.push(readChoice(raw, choices.length, envelope))
  }
  const completion: ChatCompletion = {
    id: envelope.id,
    object: 'chat.completion',
    created: envelope.created,
    model: envelope.model,
    choices,
  }
  const usage = readUsage(body.usage)
  if (usage) completion.usage = usage
  if (!isAnswer(completion, expected)) throw new UpstreamFailure('empty', 'The answer has no output.')
  return completion
}

/**
 * A whole answer as stream chunks, for upstreams that answer `stream: true` with a whole one. Shaped like an upstream's
 * own: it still goes through the ChunkNormaliser.
 */
export function completionAsChunks(completion: ChatCompletion): ChatChunk[] {
  const { id, created, model, usage } = completion
  const head = { id, object: 'chat.completion.chunk' as const, created, model }
  const chunks: ChatChunk[] = completion.choices.map(({ index, message, finish_reason, logprobs }) => ({
    ...head,
    choices: [{ index, delta: message, finish_reason, logprobs }],
  }))
  if (usage) chunks.push({ ...head, choices: [], usage })
  return chunks
}

function parse(text: string): JsonObject {
  try {
    const body: unknown = parseUpstreamJson(text)
    if (isJsonObject(body)) return body
  } catch (error) {
    if (error instanceof UpstreamFailure) throw error
    // Without the error: V8 quotes the text.
    throw new UpstreamFailure('malformed', 'The answer is not valid JSON.')
  }
  throw new UpstreamFailure('malformed', 'The answer is not a JSON object.')
}

function readChoice(raw: JsonObject, index: number, envelope: Envelope): CompletionChoice {
  const source = isJsonObject(raw.message) ? raw.message : { content: raw.text }
  const message: CompletionChoice['message'] = { role: 'assistant', content: messageText(source.content) }
  for (const key in source) {
    if (key === 'role' || key === 'content' || key === 'tool_calls' || isPrototypeKey(key)) continue
    const value = source[key]
    if (value !== null && !(Array.isArray(value) && value.length === 0)) message[key] = value
  }
  const thought = thinkingText(source.content)
  if (thought !== null) message.reasoning_content ??= thought
  message.refusal ??= null
  const toolCalls = readToolCalls(source.tool_calls, `call_${envelope.id.slice(-12)}_${index}_`)
  if (toolCalls.length > 0) message.tool_calls = toolCalls
  const said = readFinishReason(raw.finish_reason ?? 'stop')
  return {
    index,
    message,
    logprobs: isJsonObject(raw.logprobs) ? raw.logprobs : null,
    finish_reason: said === null ? 'stop' : finishReasonAfter(said, toolCalls.length > 0),
  }
}

/** Calls as OpenAI's SDKs read them, at most as many as in a stream. What names nothing to call is left out: clients look the name up. */
function readToolCalls(value: unknown, idPrefix: string): JsonObject[] {
  if (!Array.isArray(value)) return []
  const calls: JsonObject[] = []
  for (const call of value.slice(0, TOOL_CALLS_MAX)) {
    if (!isJsonObject(call)) continue
    const id = nonEmptyText(call.id) ?? `${idPrefix}${calls.length}`
    const kept: JsonObject = {}
    for (const [key, field] of Object.entries(call)) {
      if (key !== 'index' && field !== null && !isPrototypeKey(key)) kept[key] = field
    }
    if (isJsonObject(call.function)) {
      const name = nonEmptyText(call.function.name)
      if (name === null) continue
      const args = argumentsText(call.function.arguments) ?? ''
      // OpenAI calls a function without arguments with `{}`. Clients parse what they get.
      const said = { name, arguments: args.trim() === '' ? '{}' : args }
      calls.push({ ...kept, id, type: 'function', function: said })
    } else if (typeof call.type === 'string' && isJsonObject(call[call.type])) {
      // Other kinds carry their part under the name of their type: `{type: "custom", custom: {name, input}}`.
      calls.push({ ...kept, id })
    }
  }
  return calls
}

function isAnswer({ choices, usage }: ChatCompletion, expected: ExpectedAnswer): boolean {
  const reasons = choices.map(choice => choice.finish_reason)
  return choices.some(hasOutput) || isEmptyAnswer(reasons, usage?.completion_tokens ?? 0, expected)
}

function hasOutput({ message }: CompletionChoice): boolean {
  for (const key in message) if (key !== 'role' && message[key] !== null && message[key] !== '') return true
  return false
}
