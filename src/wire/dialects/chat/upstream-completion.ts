import type { ChatChunk, ChatCompletion, CompletionChoice, Envelope } from '../../../base/domain/completion.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../../base/runtime/json-object.ts'
import { parseUpstreamJson, tallyFor } from '../json/parse-json.ts'
import { classifyError } from './classify-error.ts'
import { messageText, thinkingText } from './content.ts'
import { type ExpectedAnswer, finishReasonAfter, judgeCompletion, readFinishReason } from './finish.ts'
import { argumentsText, nonEmptyText, TOOL_CALLS_MAX, uniqueCallId } from './tool-calls.ts'
import { readUpstreamError } from './upstream-error.ts'
import { readUsage, withModel, withTier } from './usage.ts'

/**
 * Turns an upstream's non-streaming answer (status 200) into the completion OpenAI would send. Throws
 * UpstreamFailure: `malformed` if it is not a completion, `empty` if it has no output, or the outcome of an
 * error in the body.
 */
export function normaliseCompletion(text: string, envelope: Envelope, expected: ExpectedAnswer): ChatCompletion {
  const body = parse(text, expected.bounds.delimiters)
  const error = readUpstreamError(body)
  if (error) throw classifyError(null, error)
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
  const usage = readUsage(body.usage, expected.hidesReasoning)
  if (usage) completion.usage = withModel(withTier(usage, body), body, envelope)
  if (judgeCompletion(completion, expected) === 'invalid')
    throw new UpstreamFailure('empty', 'The answer has no output.')
  return completion
}

/**
 * Turns a completion into stream chunks, for upstreams that answer `stream: true` without streaming. The
 * chunks have the shape of an upstream's and must still pass the ChunkNormaliser.
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

function parse(text: string, delimitersMax: number): JsonObject {
  try {
    const body: unknown = parseUpstreamJson(text, tallyFor(delimitersMax))
    if (isJsonObject(body)) return body
  } catch (error) {
    if (error instanceof UpstreamFailure) throw error
    // Do not pass the error on: V8 quotes the text in it.
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
  // Clients read `reasoning_content`, so streams rename this field too.
  if (typeof message.reasoning === 'string') {
    message.reasoning_content ??= message.reasoning
    delete message.reasoning
  }
  message.refusal ??= null
  const toolCalls = readToolCalls(source.tool_calls, `call_${envelope.id.slice(-12)}_${index}_`)
  if (toolCalls.length > 0) message.tool_calls = toolCalls
  const reason = readFinishReason(raw.finish_reason ?? 'stop')
  return {
    index,
    message,
    logprobs: isJsonObject(raw.logprobs) ? raw.logprobs : null,
    finish_reason: reason === null ? 'stop' : finishReasonAfter(reason, toolCalls.length > 0),
  }
}

/**
 * Normalises tool calls for OpenAI's SDKs, at most as many as in a stream. Drops calls without a name, because
 * clients look the name up.
 */
function readToolCalls(value: unknown, idPrefix: string): JsonObject[] {
  if (!Array.isArray(value)) return []
  const calls: JsonObject[] = []
  for (const call of value.slice(0, TOOL_CALLS_MAX)) {
    if (!isJsonObject(call)) continue
    const id = uniqueCallId(nonEmptyText(call.id), calls, idPrefix)
    const fields: JsonObject = {}
    for (const [key, field] of Object.entries(call)) {
      if (key !== 'index' && field !== null && !isPrototypeKey(key)) fields[key] = field
    }
    if (isJsonObject(call.function)) {
      const name = nonEmptyText(call.function.name)
      if (name === null) continue
      const args = argumentsText(call.function.arguments) ?? ''
      // OpenAI sends `{}` for a call without arguments, and clients fail to parse an empty string.
      const called = { name, arguments: args.trim() === '' ? '{}' : args }
      calls.push({ ...fields, id, type: 'function', function: called })
    } else if (typeof call.type === 'string' && isJsonObject(call[call.type])) {
      // Other tools carry their data in a field named after their type, such as `custom`.
      calls.push({ ...fields, id })
    }
  }
  return calls
}
