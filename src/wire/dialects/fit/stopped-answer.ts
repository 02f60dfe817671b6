import type {
  ChatChunk,
  ChunkChoice,
  ChunkDelta,
  CompletionChoice,
  Envelope,
  TokenUsage,
} from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import { countTokens, SHORT_TEXT_UNITS } from '../../tokens/count-tokens.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from '../upstream-task.ts'
import { FittedStream } from './fitted-stream.ts'
import { StopMatcher, statesOf } from './stop-matcher.ts'

/**
 * Returns a reader that ends answers at stop sequences which the vendor does not take. Only the text counts, as at the
 * vendors: no reasoning, no arguments of calls. Once every choice has ended, the server is left, or read on for its report: see
 * `StoppedStream`.
 *
 * @param stops at least one, none empty
 */
export function withStops(reader: AnswerReader, stops: readonly string[]): AnswerReader {
  const states = statesOf(stops)
  const matcher = () => new StopMatcher(states)
  return {
    ...reader,
    stream: (envelope, expected) =>
      new StoppedStream(reader.stream(envelope, expected), matcher, envelope, expected.choices),
    whole: (text, envelope, expected) => {
      const completion = reader.whole(text, envelope, expected)
      return { ...completion, choices: completion.choices.map(choice => stopped(choice, matcher())) }
    },
  }
}

/** What follows the sequence was generated all the same, so the report of the server stays as it is. */
function stopped(choice: CompletionChoice, matcher: StopMatcher): CompletionChoice {
  const { message } = choice
  const { text, stop } = matcher.push(typeof message.content === 'string' ? message.content : '')
  if (stop === null) return choice
  const { tool_calls: _calls, function_call: _call, ...kept } = message
  return {
    ...choice,
    message: { ...kept, role: 'assistant', content: text },
    ...('logprobs' in choice && { logprobs: null }),
    ...ending(stop),
  }
}

/** As vLLM names the sequence, which clients of messages want to know. */
function ending(stop: string) {
  return { finish_reason: 'stop', stop_reason: stop } as const
}

/**
 * A stream that ends at the first sequence. Some servers report their tokens only at the end of the stream. Such a stream
 * is read on, unseen by the client, for what the gateway cannot count: the cached part of a prompt, and thoughts that are
 * not shown. After SHORT_TEXT_UNITS of text that nobody gets, it is left without the report, unless the model has
 * thought: else thoughts would be free for a client that has it write on. The end of the answer waits, so that a client
 * cannot leave with all of it before it is counted.
 */
class StoppedStream extends FittedStream {
  readonly #createMatcher: () => StopMatcher
  readonly #envelope: Envelope
  readonly #choices: number
  readonly #matchers = new Map<number, StopMatcher>()
  /** Choices that a sequence ended. */
  readonly #stopped = new Set<number>()
  /** Choices that the server ended. */
  readonly #finished = new Set<number>()
  /** Choices with calls, which the client shall run, and how they end for that. */
  readonly #called = new Map<number, 'tool_calls' | 'function_call'>()
  /** The beginnings of what the client gets and of what it does not get. */
  #kept = ''
  #dropped = ''
  #hasThought = false
  #hasOutput = false
  /** What the client gets once the tokens are known. */
  #ending: StreamPart[] = []
  /** The tokens of the answer. Null until they are known. */
  #total: TokenUsage | null = null

  constructor(stream: StreamNormaliser, createMatcher: () => StopMatcher, envelope: Envelope, choices: number) {
    super(stream)
    this.#createMatcher = createMatcher
    this.#envelope = envelope
    this.#choices = choices
  }

  get #isStopped(): boolean {
    return this.#stopped.size > 0 && this.#stopped.size + this.#finished.size >= this.#choices
  }

  override get done(): boolean {
    return this.#isStopped ? this.#total !== null : super.done
  }

  override get complete(): boolean {
    return this.#isStopped || super.complete
  }

  /** Unless the model has thought, the report has as little time as that of a finished answer. */
  override get awaitsUsage(): boolean {
    return super.awaitsUsage || (this.#isStopped && !this.#hasThought)
  }

  override get usage(): StreamNormaliser['usage'] {
    return this.#isStopped ? (this.#total ?? this.#counted()) : super.usage
  }

  /** A text may need several chunks, so `push` returns it. */
  text(_event: SseEvent): null {
    return null
  }

  push(event: SseEvent): StreamPart[] {
    if (this.done) return []
    const text = this.stream.text(event)
    return this.#cut(text === null ? this.stream.push(event) : [text])
  }

  end(): StreamPart[] {
    if (this.#total !== null) return []
    // What broke off after the sequence is no failure of the answer.
    const parts = this.#isStopped && !this.stream.complete ? [] : this.#cut(this.stream.end())
    if (this.#isStopped) return this.#total === null ? [...parts, ...this.#close()] : parts
    for (const index of this.#matchers.keys()) parts.push(...this.#rest(index))
    return parts
  }

  #cut(parts: readonly StreamPart[]): StreamPart[] {
    const kept = parts.flatMap(part => (typeof part === 'string' ? this.#cutText(0, part) : this.#cutChunk(part)))
    if (!this.#isStopped) return kept
    return this.stream.done || !this.#awaitsReport() ? [...kept, ...this.#close()] : kept
  }

  /** Whether the report of the server has more to say than the gateway can count. An empty answer costs nothing. */
  #awaitsReport(): boolean {
    const { usage } = this.stream
    if (!this.#hasOutput || countsThoughts(usage)) return false
    return this.#hasThought || (!usage?.prompt_tokens && this.#dropped.length < SHORT_TEXT_UNITS)
  }

  #close(): StreamPart[] {
    const usage = this.stream.complete && this.stream.usage?.completion_tokens ? this.#generated() : this.#counted()
    this.#total = usage
    const { id, created, model } = this.#envelope
    return [...this.#ending, { id, object: 'chat.completion.chunk', created, model, choices: [], usage }]
  }

  #cutText(index: number, given: string): StreamPart[] {
    if (this.#stopped.has(index)) {
      this.#drop(given)
      return []
    }
    const { text, stop, rest } = this.#matcher(index).push(given)
    const parts: StreamPart[] = text === '' ? [] : [this.#textPart(index, text)]
    if (stop === null) return parts
    this.#drop(rest)
    this.#stopped.add(index)
    this.#finished.delete(index)
    const called = this.#called.get(index)
    const last = this.#chunk({ index, delta: {}, ...(called ? { finish_reason: called } : ending(stop)) })
    if (!this.#isStopped) return [...parts, last]
    this.#ending = [last]
    return parts
  }

  #cutChunk(chunk: ChatChunk): StreamPart[] {
    const { choices, ...others } = chunk
    const parts = choices.flatMap(choice => this.#cutChoice(others, choice))
    // A report comes with the last choice, or alone.
    if (this.#isStopped || (choices.length > 0 && chunk.usage == null)) return parts
    return [...parts, { ...others, choices: [] }]
  }

  #cutChoice({ usage: _, ...head }: Omit<ChatChunk, 'choices'>, choice: ChunkChoice): StreamPart[] {
    const { index, delta, finish_reason: reason } = choice
    if (delta.reasoning_content || delta.reasoning || delta.reasoning_details) this.#hasThought = true
    if (this.#stopped.has(index)) {
      this.#drop(generatedIn(delta))
      return []
    }
    const { content, ...rest } = delta
    const text = typeof content === 'string' ? content : ''
    const own = { ...head, choices: [{ ...choice, delta: text === '' ? delta : rest }] } as ChatChunk
    // What is held back comes before a call and before the end.
    if (reason !== null || rest.tool_calls !== undefined || rest.function_call !== undefined) {
      const parts = text === '' ? [] : this.#cutText(index, text)
      if (this.#stopped.has(index)) {
        this.#drop(generatedIn(rest))
        return parts
      }
      if (rest.tool_calls !== undefined) this.#called.set(index, 'tool_calls')
      else if (rest.function_call !== undefined) this.#called.set(index, 'function_call')
      if (reason === null) this.#hasOutput = true
      else this.#finished.add(index)
      this.#keep(generatedIn(rest))
      return [...parts, ...this.#rest(index), own]
    }
    const saysMore = Object.keys(rest).some(key => key !== 'role' && rest[key] !== null && rest[key] !== '')
    if (saysMore) this.#hasOutput = true
    this.#keep(generatedIn(rest))
    const before: StreamPart[] = saysMore ? this.#rest(index) : []
    if (text === '' || saysMore || 'role' in rest || choice.logprobs != null) before.push(own)
    return text === '' ? before : [...before, ...this.#cutText(index, text)]
  }

  #rest(index: number): StreamPart[] {
    const held = this.#stopped.has(index) ? '' : this.#matcher(index).flush()
    return held === '' ? [] : [this.#textPart(index, held)]
  }

  #textPart(index: number, text: string): StreamPart {
    this.#hasOutput = true
    this.#keep(text)
    return index === 0 ? text : this.#chunk({ index, delta: { content: text }, finish_reason: null })
  }

  #keep(text: string): void {
    this.#kept = extended(this.#kept, text)
  }

  #drop(text: string): void {
    this.#dropped = extended(this.#dropped, text)
  }

  #matcher(index: number): StopMatcher {
    const matcher = this.#matchers.get(index) ?? this.#createMatcher()
    this.#matchers.set(index, matcher)
    return matcher
  }

  #chunk(choice: ChunkChoice): ChatChunk {
    const { id, created, model } = this.#envelope
    return { id, object: 'chat.completion.chunk', created, model, choices: [choice] }
  }

  /** The report of the server, less the text that the client did not get, but not below what it got. */
  #generated(): TokenUsage {
    const { usage } = this.stream
    const { completion_tokens: reported = 0 } = usage ?? {}
    const kept = Math.min(reported, countTokens(this.#kept))
    return withOutput(usage, Math.max(1, kept, reported - countTokens(this.#dropped)))
  }

  /**
   * Without the last report. An earlier one counts the prompt, but not the output, unless it counts thoughts: then it is
   * the count so far, which Gemini sends with each chunk. 0 has the gateway count the text.
   */
  #counted(): TokenUsage {
    const { usage } = this.stream
    const { completion_tokens: reported = 0 } = usage ?? {}
    if (countsThoughts(usage)) return withOutput(usage, Math.max(reported, countTokens(this.#kept)))
    return withOutput(usage, this.#hasOutput ? 0 : 1)
  }
}

/** A count of them is exact, and counting more would hold the event loop. */
function extended(text: string, more: string): string {
  return text.length >= SHORT_TEXT_UNITS ? text : text + more.slice(0, SHORT_TEXT_UNITS - text.length)
}

/** The text of a delta that was generated, besides fields that nobody bills by. */
function generatedIn({ content, reasoning_content, reasoning, refusal, tool_calls: calls }: ChunkDelta): string {
  let all = ''
  for (const text of [content, reasoning_content ?? reasoning, refusal]) if (typeof text === 'string') all += text
  for (const { function: called } of calls ?? []) all += `${called?.name ?? ''}${called?.arguments ?? ''}`
  return all
}

function countsThoughts(usage: TokenUsage | null): boolean {
  return Boolean((usage?.completion_tokens_details as { reasoning_tokens?: number } | undefined)?.reasoning_tokens)
}

function withOutput(usage: TokenUsage | null, output: number): TokenUsage {
  const { prompt_tokens: prompt = 0 } = usage ?? {}
  return { ...usage, prompt_tokens: prompt, completion_tokens: output, total_tokens: prompt + output }
}
