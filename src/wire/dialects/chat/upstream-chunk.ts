import type {
  ChatChunk,
  ChunkChoice,
  ChunkDelta,
  Envelope,
  FinishReason,
  TokenUsage,
} from '../../../base/domain/completion.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../../base/runtime/json-object.ts'
import { type EventField, EventPattern } from '../event-pattern.ts'
import { type JsonTally, parseUpstreamJson } from '../json/parse-json.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import { usageChunk } from './chat-stream.ts'
import { classifyError } from './classify-error.ts'
import { messageText, onlyText, thinkingText } from './content.ts'
import { ContentPattern, chatPlace } from './content-pattern.ts'
import { finishReasonAfter, readFinishReason } from './finish.ts'
import { ToolCalls } from './tool-calls.ts'
import { readUpstreamError } from './upstream-error.ts'
import { readUsage, withModel, withTier } from './usage.ts'

/** The longest event that a pattern is made of, in UTF-16 units. */
const PATTERN_UNITS_MAX = 4_096

const contentField: EventField = { key: chatPlace.key, kind: 'text', valueIn: chatPlace.textOf }
/** OpenAI pads each event with random letters, so that its length does not show the length of the text. */
const paddingField: EventField = { key: '"obfuscation":', kind: 'padding', valueIn: event => event.obfuscation }

interface ChoiceState {
  readonly toolCalls: ToolCalls
  /** The last finish_reason received. */
  finishReason: FinishReason | null
  hasContent: boolean
}

/**
 * Turns the events of one upstream stream into the chunks OpenAI would send: the role first, tool calls with
 * index and id, exactly one finish_reason per choice and nothing after it, usage once at the end. Holds the
 * state of one stream and cannot be reused.
 *
 * With one choice, the finish_reason is held back until the stream ends. Some servers send it in every chunk
 * (new-api issue 378, gcli2api issue 403) or in the first one (open-webui issue 23921), and forwarding it
 * immediately would cut their answers off. Such servers do not support `n`, so with several choices each one
 * ends at its finish_reason. Code that cuts off the unfinished choices therefore never ends a finished one twice.
 */
export class ChunkNormaliser implements JsonTally {
  readonly delimitersMax: number
  delimiters = 0
  readonly #envelope: Envelope
  readonly #choicesMax: number
  readonly #hidesReasoning: boolean
  readonly #choices = new Map<number, ChoiceState>()
  #unfinished = 0
  /** A choice continued after its finish_reason, so the finish_reason of this server cannot be trusted. */
  #continuedAfterFinish = false
  /**
   * The finish_reason came with the first content: a one-chunk answer, or a server that sends it in every
   * chunk (gcli2api issue 403).
   */
  #finishedWithFirstContent = false
  #usage: TokenUsage | null = null
  #done = false
  /** Made from an event that carried only text of the first choice. */
  #pattern: ContentPattern | EventPattern | null = null
  /** True until a pattern is learned, and again once an event matches it. */
  #mayLearnPattern = true

  /**
   * @param choicesMax the request's `n`. Choices beyond it are dropped, because they would be billed.
   * @param delimitersMax the most delimiters in one event
   * @param hidesReasoning see UpstreamQuirks
   */
  constructor(envelope: Envelope, choicesMax: number, delimitersMax: number, hidesReasoning: boolean) {
    this.#hidesReasoning = hidesReasoning
    this.#envelope = envelope
    this.#choicesMax = choicesMax
    this.delimitersMax = delimitersMax
  }

  /** True after `[DONE]`: later events are ignored. */
  get done(): boolean {
    return this.#done
  }

  /** The last usage report so far; null if there was none. */
  get usage(): TokenUsage | null {
    return this.#usage
  }

  /** True if the answer is complete. A later failure can only cost the usage report. */
  get complete(): boolean {
    return (
      this.#done || (!this.#continuedAfterFinish && this.#unfinished === 0 && this.#choices.size === this.#choicesMax)
    )
  }

  /**
   * True if the answer is complete and its finish_reason can be trusted, so that only the usage report is
   * missing.
   */
  get awaitsUsage(): boolean {
    return this.complete && !this.#finishedWithFirstContent
  }

  /**
   * Returns the text of an event that adds only text to the first choice and matches the learned pattern, as
   * most events do. Returns null for any other event; `push` must read it.
   */
  text({ event, data }: SseEvent): string | null {
    if (this.#pattern === null || event !== '' || this.#done || this.#choices.get(0)!.finishReason !== null) return null
    // An event with an empty text yields no chunk.
    const text = this.#pattern.read(data) || null
    if (text !== null) this.#mayLearnPattern = true
    return text
  }

  /** Returns the chunks of one event, often none. Throws UpstreamFailure for errors and malformed JSON. */
  push(event: SseEvent): ChatChunk[] {
    const data = event.data.trimStart()
    // Some proxies put a comment into an event (CLIProxyAPI issue 942).
    if (data === '' || data.startsWith(':') || this.#done) return []
    if (data.startsWith('[DONE]')) {
      this.#done = true
      return []
    }
    const body = parseStreamEvent(event, this)
    if (event.event === 'error' || body.error || body.object === 'error') {
      const error = readUpstreamError(body, event.event === 'error')
      if (error) throw classifyError(null, error)
    }
    // Keep the last report and never sum reports: vLLM's are cumulative, and some servers send theirs twice.
    if (body.usage) {
      const usage = readUsage(body.usage, this.#hidesReasoning)
      if (usage !== null) this.#usage = withModel(withTier(usage, body), body, this.#envelope)
    }
    if (!Array.isArray(body.choices)) return []
    const chunks = this.#readChoices(body.choices)
    if (!body.usage) this.#learnPattern(event, chunks)
    return chunks
  }

  /**
   * Learns the pattern of an event. Stops learning when no event matched the last pattern: every event of such
   * a stream differs in more than its text.
   */
  #learnPattern(event: SseEvent, chunks: readonly ChatChunk[]): void {
    if (!this.#mayLearnPattern || event.event !== '' || chunks.length !== 1) return
    // The pattern keeps the whole event in memory.
    if (event.data.length > PATTERN_UNITS_MAX) return
    const text = onlyText(elementAt(chunks, 0))
    if (text === null) return
    this.#pattern = event.data.includes(paddingField.key)
      ? EventPattern.of(event.data, text, [contentField, paddingField])
      : ContentPattern.of(event.data, text)
    this.#mayLearnPattern = false
  }

  /**
   * Returns the chunks due at the end of the stream: the finish_reason of each choice (`stop` if only
   * `[DONE]` was sent), then the usage chunk if usage was reported. Throws UpstreamFailure if the stream
   * broke off.
   */
  end(): ChatChunk[] {
    if (!this.#done && (this.#choices.size === 0 || this.#unfinished > 0)) {
      throw new UpstreamFailure('server_error', 'The upstream closed the stream before its answer was finished.')
    }
    const chunks: ChatChunk[] = []
    for (const [index, state] of this.#choices) {
      if (!this.#endsEachChoice || state.finishReason === null) chunks.push(...this.#endChoice(index, state))
    }
    if (this.#usage) chunks.push(usageChunk(this.#envelope, this.#usage))
    return chunks
  }

  #readChoices(rawChoices: unknown[]): ChatChunk[] {
    const chunks: ChatChunk[] = []
    const choices: ChunkChoice[] = []
    const endings: ChatChunk[] = []
    for (let position = 0; position < rawChoices.length; position++) {
      const raw = rawChoices[position]
      if (!isJsonObject(raw)) continue
      const index = typeof raw.index === 'number' ? raw.index : position
      if (!(index >= 0 && index < this.#choicesMax && Number.isInteger(index))) continue
      let state = this.#choices.get(index)
      if (state === undefined) {
        state = this.#open(index)
        chunks.push(this.#chunk([{ index, delta: { role: 'assistant', content: '' }, finish_reason: null }]))
      }
      if (this.#endsEachChoice && state.finishReason !== null) continue
      const choice = this.#readChoice(index, state, raw)
      if (choice) choices.push(choice)
      if (this.#endsEachChoice && state.finishReason !== null) endings.push(...this.#endChoice(index, state))
    }
    if (choices.length > 0) chunks.push(this.#chunk(choices))
    return chunks.concat(endings)
  }

  #readChoice(index: number, state: ChoiceState, raw: JsonObject): ChunkChoice | null {
    const delta = readDelta(raw, state.toolCalls)
    const logprobs = isJsonObject(raw.logprobs) ? raw.logprobs : null
    if (delta !== null && state.finishReason !== null) this.#continuedAfterFinish = true
    const reason = readFinishReason(raw.finish_reason)
    if (reason !== null) {
      this.#finish(state, reason)
      this.#finishedWithFirstContent = delta !== null && !state.hasContent
    }
    if (delta !== null) state.hasContent = true
    // Moonshot reports usage inside the choice (pi issue 2017).
    if (raw.usage) this.#usage = readUsage(raw.usage, this.#hidesReasoning) ?? this.#usage
    if (delta === null && !hasTokens(logprobs)) return null
    return { index, delta: delta ?? {}, finish_reason: null, ...(logprobs !== null && { logprobs }) }
  }

  #open(index: number): ChoiceState {
    const toolCalls = new ToolCalls(`call_${this.#envelope.id.slice(-12)}_${index}_`)
    const state = { toolCalls, finishReason: null, hasContent: false }
    this.#choices.set(index, state)
    this.#unfinished += 1
    return state
  }

  get #endsEachChoice(): boolean {
    return this.#choicesMax > 1
  }

  #endChoice(index: number, { toolCalls, finishReason }: ChoiceState): ChatChunk[] {
    const reason = finishReasonAfter(finishReason ?? 'stop', toolCalls.any)
    const missing = reason === 'tool_calls' ? toolCalls.missingArguments() : []
    const last = this.#chunk([{ index, delta: {}, finish_reason: reason }])
    if (missing.length === 0) return [last]
    return [this.#chunk([{ index, delta: { tool_calls: missing }, finish_reason: null }]), last]
  }

  #finish(state: ChoiceState, reason: FinishReason): void {
    if (state.finishReason === null) this.#unfinished -= 1
    state.finishReason = reason
  }

  #chunk(choices: ChunkChoice[]): ChatChunk {
    const { id, created, model } = this.#envelope
    return { id, object: 'chat.completion.chunk', created, model, choices }
  }
}

/**
 * True if the log probabilities describe a token. A token may have no visible text: it can end the answer, be
 * part of a character, or belong to the syntax around a tool call (vLLM issue 37737).
 */
function hasTokens(logprobs: JsonObject | null): boolean {
  if (logprobs === null) return false
  for (const key in logprobs) if (Array.isArray(logprobs[key]) && logprobs[key].length > 0) return true
  return false
}

/**
 * Reads the delta of one upstream choice. Leaves out the role, nulls and empty texts; keeps unknown fields.
 * Returns null if nothing is left.
 */
function readDelta(choice: JsonObject, toolCalls: ToolCalls): ChunkDelta | null {
  const raw = choice.delta ?? choice.message ?? (typeof choice.text === 'string' ? { content: choice.text } : null)
  if (!isJsonObject(raw)) return null
  const thought = thinkingText(raw.content)
  let delta: ChunkDelta | null = thought ? { reasoning_content: thought } : null
  for (const key in raw) {
    let value = raw[key]
    if (key === 'content') value = typeof value === 'string' ? value : messageText(value)
    else if (key === 'tool_calls') {
      const calls = toolCalls.read(value)
      value = calls.length > 0 ? calls : null
    } else if (key === 'role' || key === 'obfuscation' || isPrototypeKey(key)) continue
    if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) continue
    delta ??= {}
    // vLLM since 0.16 and OpenRouter call it `reasoning`; clients read `reasoning_content`.
    if (key === 'reasoning' && typeof value === 'string') delta.reasoning_content ??= value
    else delta[key] = value
  }
  return delta
}

/**
 * Parses the data of a stream event, which must be a JSON object. An `error` event with other data becomes
 * `{message}`. Adds the cost of parsing to `tally`. Throws UpstreamFailure `malformed`.
 */
export function parseStreamEvent(event: SseEvent, tally: JsonTally): JsonObject {
  let body: unknown
  try {
    body = parseUpstreamJson(event.data, tally)
  } catch (error) {
    if (error instanceof UpstreamFailure) throw error
    if (event.event === 'error') return { message: event.data }
    // Do not pass the error on: V8 quotes the text in it.
    throw new UpstreamFailure('malformed', 'A stream event is not valid JSON.')
  }
  if (isJsonObject(body)) return body
  if (event.event === 'error') return { message: event.data }
  throw new UpstreamFailure('malformed', 'A stream event is not a JSON object.')
}
