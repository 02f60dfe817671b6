import type { AnswerEvent, AnswerFinish, UsageParts } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { classifyError } from '../chat/classify-error.ts'
import { TOOL_CALLS_MAX } from '../chat/tool-calls.ts'
import { parseStreamEvent } from '../chat/upstream-chunk.ts'
import { readUpstreamError } from '../chat/upstream-error.ts'
import type { EventField } from '../event-pattern.ts'
import { type JsonTally, parseUpstreamObject } from '../json/parse-json.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import { customInput } from '../tool-arguments.ts'
import type { ToolNames } from '../tool-names.ts'
import { readGeminiFinish } from './gemini-finish.ts'
import { readGeminiUsage } from './gemini-usage.ts'

/** Gemini reports the usage so far in each event. */
const textFields: readonly EventField[] = [
  { key: '"text":', kind: 'text', valueIn: textOf },
  { key: '"candidatesTokenCount":', kind: 'count', valueIn: event => usageOf(event).candidatesTokenCount },
  { key: '"totalTokenCount":', kind: 'count', valueIn: event => usageOf(event).totalTokenCount },
]

/**
 * Turns the chunks of one `generateContent` answer into answer events. A whole answer is a single chunk. Holds the
 * state of one answer and cannot be reused.
 */
export class GeminiDecoder implements JsonTally {
  readonly delimitersMax: number
  delimiters = 0
  readonly textFields = textFields
  /** Any text is due at once: an event has whole parts. */
  readonly textTarget = 0
  readonly #names: ToolNames
  readonly #idPrefix: string
  #calls = 0
  #finishReason: string | null = null
  #isBlocked = false
  #usage: UsageParts | null = null
  /** The last event that was not parsed, if none was parsed after it. */
  #skipped: string | null = null

  /**
   * @param names the names of the tools as the client knows them
   * @param idPrefix starts the ids of calls that arrive without one; unique per answer
   * @param delimitersMax the most delimiters in one event
   */
  constructor(names: ToolNames, idPrefix: string, delimitersMax = 131_072) {
    this.#names = names
    this.#idPrefix = idPrefix
    this.delimitersMax = delimitersMax
  }

  /** The last usage report so far; null if there was none. */
  get usage(): UsageParts | null {
    this.#readSkipped()
    return this.#usage
  }

  /** Nothing marks the last chunk. */
  get done(): boolean {
    return false
  }

  /** True if the answer is complete. A later failure can only cost the usage report. */
  get complete(): boolean {
    return this.#finishReason !== null || this.#isBlocked
  }

  /** Returns the answer events of one event of a stream. Throws UpstreamFailure for errors and malformed JSON. */
  push(event: SseEvent): AnswerEvent[] {
    if (event.data === '' || event.data === '[DONE]') return []
    return this.read(parseStreamEvent(event, this))
  }

  /** Takes the data of an event with text that was not parsed. Its usage is read when it is needed. */
  skip(data: string): void {
    this.#skipped = data
  }

  /** Returns the answer events of one chunk. Throws UpstreamFailure for errors. */
  read(body: JsonObject): AnswerEvent[] {
    this.#readSkipped()
    const error = readUpstreamError(body)
    if (error) throw classifyError(null, error)
    this.#usage = readGeminiUsage(body.usageMetadata) ?? this.#usage
    const { promptFeedback: feedback } = body
    if (isJsonObject(feedback) && typeof feedback.blockReason === 'string') this.#isBlocked = true
    const candidate: unknown = Array.isArray(body.candidates) ? body.candidates[0] : undefined
    if (!isJsonObject(candidate)) return []
    const events = isJsonObject(candidate.content) ? this.#readParts(candidate.content.parts) : []
    if (typeof candidate.finishReason === 'string' && candidate.finishReason !== 'FINISH_REASON_UNSPECIFIED') {
      this.#finishReason = candidate.finishReason
    }
    return events
  }

  /** Returns the last answer events. Throws UpstreamFailure if the answer broke off or could not be read. */
  end(): AnswerEvent[] {
    const events: AnswerEvent[] = [{ kind: 'finish', reason: this.#finish() }]
    const { usage } = this
    if (usage !== null) events.push({ kind: 'usage', usage })
    return events
  }

  #readSkipped(): void {
    if (this.#skipped === null) return
    const { usageMetadata } = JSON.parse(this.#skipped) as JsonObject
    this.#skipped = null
    this.#usage = readGeminiUsage(usageMetadata) ?? this.#usage
  }

  #finish(): AnswerFinish {
    if (this.#finishReason !== null) return readGeminiFinish(this.#finishReason, this.#calls > 0)
    // A filter refused the prompt: there is no candidate.
    if (this.#isBlocked) return 'refused'
    throw new UpstreamFailure('server_error', 'The upstream ended its answer before it was finished.')
  }

  #readParts(parts: unknown): AnswerEvent[] {
    return Array.isArray(parts) ? parts.flatMap(part => (isJsonObject(part) ? this.#readPart(part) : [])) : []
  }

  #readPart({ text, thought, functionCall: call, thoughtSignature: signature }: JsonObject): AnswerEvent[] {
    const seal =
      typeof signature === 'string' && signature !== '' ? { family: 'google' as const, data: signature } : undefined
    if (isJsonObject(call)) return this.#readCall(call, seal && { seal })
    const events: AnswerEvent[] = []
    if (typeof text === 'string' && text !== '') events.push({ kind: thought === true ? 'reasoning' : 'text', text })
    if (seal !== undefined) events.push({ kind: 'reasoning_seal', seal })
    return events
  }

  /** Drops calls beyond what any model makes: each costs as much as an event. */
  #readCall(call: JsonObject, sealed: object | undefined): AnswerEvent[] {
    if (this.#calls >= TOOL_CALLS_MAX) return []
    const { name, namespace, kind } = this.#names.named(typeof call.name === 'string' ? call.name : '')
    const id = typeof call.id === 'string' && call.id !== '' ? call.id : `${this.#idPrefix}${this.#calls}`
    this.#calls++
    const args = JSON.stringify(call.args ?? {})
    return [
      { kind: 'tool_start', id, name, ...(namespace !== undefined && { namespace }), toolKind: kind, ...sealed },
      { kind: 'tool_arguments', text: kind === 'custom' ? customInput(args) : args },
      { kind: 'tool_end' },
    ]
  }
}

/**
 * Reads a whole `generateContent` answer (status 200). Throws UpstreamFailure: `malformed` if it is none, or the
 * outcome of the error in it.
 */
export function readGeminiAnswer(
  text: string,
  names: ToolNames,
  idPrefix: string,
  delimitersMax?: number,
): AnswerEvent[] {
  const decoder = new GeminiDecoder(names, idPrefix)
  return [...decoder.read(parseUpstreamObject(text, delimitersMax)), ...decoder.end()]
}

/** Returns the text of an event with a single part. Throws a TypeError for other events. */
function textOf({ candidates }: JsonObject): unknown {
  const [candidate, ...others] = candidates as { content: { parts: JsonObject[] } }[]
  const [part, ...more] = candidate!.content.parts
  return others.length + more.length === 0 ? part?.text : undefined
}

function usageOf({ usageMetadata }: JsonObject): JsonObject {
  return usageMetadata as JsonObject
}
