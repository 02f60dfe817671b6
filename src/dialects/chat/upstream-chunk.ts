import type { ChatChunk, ChunkChoice, ChunkDelta, FinishReason, TokenUsage } from '../../domain/completion.ts'
import { UpstreamFailure } from '../../domain/upstream-failure.ts'
import { isJsonObject, isPrototypeKey, type JsonObject } from '../../runtime/json-object.ts'
import { parseUpstreamJson } from '../json/parse-upstream-json.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import { ContentPattern } from './content-pattern.ts'
import type { Envelope } from './envelope.ts'
import { finishReasonAfter, readFinishReason } from './finish-reason.ts'
import { messageText, thinkingText } from './message-text.ts'
import { readUsage } from './read-usage.ts'
import { usageChunk } from './sse-encode.ts'
import { ToolCalls } from './tool-calls.ts'
import { failureOfError, readUpstreamError } from './upstream-error.ts'

interface ChoiceState {
  readonly toolCalls: ToolCalls
  /** What was said last. */
  finishReason: FinishReason | null
  hasContent: boolean
}

/**
 * Turns one upstream's stream events into the chunks OpenAI would send: role first, tool calls with index and id, exactly
 * one finish_reason for each choice and nothing after it, usage once at the end. State of one stream; not reusable.
 *
 * A finish_reason is kept until the stream has ended: there are servers that say it in every chunk (new-api issue 378, gcli2api issue 403), or in the
 * first one (open-webui issue 23921). Taken at its word, it would cut their answers off after that. Where several choices were asked for, which such servers
 * do not know, each ends when it says so: whoever cuts the others off must not end it anew.
 */
export class ChunkNormaliser {
  readonly #envelope: Envelope
  readonly #choicesMax: number
  readonly #choices = new Map<number, ChoiceState>()
  #unfinished = 0
  /** A choice went on after its finish_reason, which means nothing here. */
  #wentOn = false
  /** The finish_reason came beside the first content: this may be all, or a server that says it in every chunk (gcli2api issue 403). */
  #saidAtOnce = false
  #usage: TokenUsage | null = null
  #done = false
  /** Of the last event that was nothing but text of the first choice. */
  #pattern: ContentPattern | null = null
  /** Whether an event fitted it. */
  #patternFits = true

  /** `choicesMax` is the request's `n`: choices nobody asked for are dropped, since they would be billed. */
  constructor(envelope: Envelope, choicesMax: number) {
    this.#envelope = envelope
    this.#choicesMax = choicesMax
  }

  /** `[DONE]` was seen: nothing more is to be read. */
  get done(): boolean {
    return this.#done
  }

  /** The last usage reported so far; null when there was none. */
  get usage(): TokenUsage | null {
    return this.#usage
  }

  /** The answer is whole. What goes wrong from now on costs no more than the usage report. */
  get complete(): boolean {
    return this.#done || (!this.#wentOn && this.#unfinished === 0 && this.#choices.size === this.#choicesMax)
  }

  /** It is whole, and nobody has to fear that its finish_reason means nothing: only its usage report is still to come. */
  get awaitsUsage(): boolean {
    return this.complete && !this.#saidAtOnce
  }

  /**
   * The next text of the first choice, where the event is nothing else and an earlier one was like it; null for any other event, which
   * has to be pushed. That is most events of most streams.
   */
  text({ event, data }: SseEvent): string | null {
    if (this.#pattern === null || event !== '' || this.#done || this.#choices.get(0)!.finishReason !== null) return null
    // An empty text amounts to nothing.
    const text = this.#pattern.read(data) || null
    if (text !== null) this.#patternFits = true
    return text
  }

  /** The chunks that this event amounts to, often one, often none. Throws UpstreamFailure for errors and malformed JSON. */
  push(event: SseEvent): ChatChunk[] {
    const data = event.data.trimStart()
    // A proxy had put a comment into an event (CLIProxyAPI issue 942).
    if (data === '' || data.startsWith(':') || this.#done) return []
    if (data.startsWith('[DONE]')) {
      this.#done = true
      return []
    }
    const body = parse(event)
    if (event.event === 'error' || body.error || body.object === 'error') {
      const error = readUpstreamError(body, event.event === 'error')
      if (error) throw failureOfError(null, error)
    }
    // The last report wins and is never added up: vLLM's are cumulative, others come twice.
    if (body.usage) this.#usage = readUsage(body.usage) ?? this.#usage
    if (!Array.isArray(body.choices)) return []
    const chunks = this.#readChoices(body.choices)
    if (!body.usage) this.#learnPattern(event, chunks)
    return chunks
  }

  /** Where each event differs from the one before in more than its text, the first pattern is the last. */
  #learnPattern(event: SseEvent, chunks: readonly ChatChunk[]): void {
    if (!this.#patternFits || event.event !== '' || chunks.length !== 1) return
    const text = onlyText(chunks[0]!)
    if (text === null) return
    this.#pattern = ContentPattern.of(event.data, text)
    this.#patternFits = false
  }

  /**
   * What is still due when the stream has ended: the finish_reason of each choice, `stop` where only `[DONE]` was sent, then the usage chunk if
   * usage was reported. Throws UpstreamFailure when the stream broke off.
   */
  end(): ChatChunk[] {
    if (!this.#done && (this.#choices.size === 0 || this.#unfinished > 0)) {
      throw new UpstreamFailure('server_error', 'The upstream closed the stream before its answer was finished.')
    }
    const chunks: ChatChunk[] = []
    for (const [index, state] of this.#choices) {
      if (!this.#endsAtOnce || state.finishReason === null) chunks.push(...this.#ending(index, state))
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
      if (this.#endsAtOnce && state.finishReason !== null) continue
      const choice = this.#readChoice(index, state, raw)
      if (choice) choices.push(choice)
      if (this.#endsAtOnce && state.finishReason !== null) endings.push(...this.#ending(index, state))
    }
    if (choices.length > 0) chunks.push(this.#chunk(choices))
    return chunks.concat(endings)
  }

  #readChoice(index: number, state: ChoiceState, raw: JsonObject): ChunkChoice | null {
    const delta = readDelta(raw, state)
    const logprobs = isJsonObject(raw.logprobs) ? raw.logprobs : null
    if (delta !== null && state.finishReason !== null) this.#wentOn = true
    const said = readFinishReason(raw.finish_reason)
    if (said !== null) {
      this.#finish(state, said)
      this.#saidAtOnce = delta !== null && !state.hasContent
    }
    if (delta !== null) state.hasContent = true
    // Moonshot reports its usage here (pi issue 2017).
    if (raw.usage) this.#usage = readUsage(raw.usage) ?? this.#usage
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

  get #endsAtOnce(): boolean {
    return this.#choicesMax > 1
  }

  #ending(index: number, { toolCalls, finishReason }: ChoiceState): ChatChunk[] {
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

/** True when the chunk carries a part of the answer itself: text, reasoning, a tool call, a refusal, audio. */
export function hasContent(chunk: ChatChunk | string): boolean {
  if (typeof chunk === 'string') return true
  for (const { delta } of chunk.choices) {
    for (const key in delta) {
      if (key !== 'role' && delta[key] !== '') return true
    }
  }
  return false
}

/** The text of a chunk that is the content of the first choice and nothing else. */
function onlyText({ choices }: ChatChunk): string | null {
  const { index, delta, finish_reason, logprobs } = choices[0]!
  if (choices.length > 1 || index !== 0 || finish_reason !== null || logprobs !== undefined) return null
  const { content, ...rest } = delta
  return typeof content === 'string' && Object.keys(rest).length === 0 ? content : null
}

/** Whether it tells of a token, which may show nothing by itself: it ends the answer, or is part of a character or of what surrounds a tool call (vLLM issue 37737). */
function hasTokens(logprobs: JsonObject | null): boolean {
  if (logprobs === null) return false
  for (const key in logprobs) if (Array.isArray(logprobs[key]) && logprobs[key].length > 0) return true
  return false
}

function parse(event: SseEvent): JsonObject {
  let body: unknown
  try {
    body = parseUpstreamJson(event.data)
  } catch (error) {
    if (error instanceof UpstreamFailure) throw error
    if (event.event === 'error') return { message: event.data }
    // Without the error: V8 quotes the text.
    throw new UpstreamFailure('malformed', 'A stream event is not valid JSON.')
  }
  if (isJsonObject(body)) return body
  if (event.event === 'error') return { message: event.data }
  throw new UpstreamFailure('malformed', 'A stream event is not a JSON object.')
}

/** Null when nothing is left of it. Nulls and empty texts are left out; unknown fields such as `reasoning` are kept. */
function readDelta(choice: JsonObject, state: ChoiceState): ChunkDelta | null {
  const raw = choice.delta ?? choice.message ?? (typeof choice.text === 'string' ? { content: choice.text } : null)
  if (!isJsonObject(raw)) return null
  const thought = thinkingText(raw.content)
  let delta: ChunkDelta | null = thought ? { reasoning_content: thought } : null
  for (const key in raw) {
    let value = raw[key]
    if (key === 'content') value = typeof value === 'string' ? value : messageText(value)
    else if (key === 'tool_calls') {
      const calls = state.toolCalls.read(value)
      value = calls.length > 0 ? calls : null
    } else if (key === 'role' || key === 'obfuscation' || isPrototypeKey(key)) continue
    if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) continue
    delta ??= {}
    delta[key] = value
  }
  return delta
}
