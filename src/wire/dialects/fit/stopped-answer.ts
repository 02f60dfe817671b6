import type { ChatChunk, ChunkChoice, CompletionChoice, Envelope, TokenUsage } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from '../upstream-task.ts'
import { FittedStream } from './fitted-stream.ts'
import { StopMatcher, statesOf } from './stop-matcher.ts'

/**
 * Returns a reader that ends answers at stop sequences which the vendor does not take. Only the text counts, as at the
 * vendors: no reasoning, no arguments of calls. Once every choice has ended, the stream is done and its server is left.
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
  const { tool_calls: _, ...kept } = message
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

class StoppedStream extends FittedStream {
  readonly #createMatcher: () => StopMatcher
  readonly #envelope: Envelope
  readonly #choices: number
  readonly #matchers = new Map<number, StopMatcher>()
  /** Choices that a sequence ended. */
  readonly #stopped = new Set<number>()
  /** Choices that the server ended. */
  readonly #finished = new Set<number>()
  #hasOutput = false

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
    return this.#isStopped || super.done
  }

  override get complete(): boolean {
    return this.#isStopped || super.complete
  }

  /** A text may need several chunks, so `push` returns it. */
  text(_event: SseEvent): null {
    return null
  }

  push(event: SseEvent): StreamPart[] {
    if (this.#isStopped) return []
    const text = this.stream.text(event)
    return this.#cut(text === null ? this.stream.push(event) : [text])
  }

  end(): StreamPart[] {
    if (this.#isStopped) return []
    const parts = this.#cut(this.stream.end())
    for (const index of this.#matchers.keys()) parts.push(...this.#rest(index))
    return parts
  }

  #cut(parts: readonly StreamPart[]): StreamPart[] {
    const kept = parts.flatMap(part => (typeof part === 'string' ? this.#cutText(0, part) : this.#cutChunk(part)))
    return this.#isStopped ? [...kept, this.#lastUsage()] : kept
  }

  #cutText(index: number, given: string): StreamPart[] {
    if (this.#stopped.has(index)) return []
    const { text, stop } = this.#matcher(index).push(given)
    if (text !== '') this.#hasOutput = true
    const parts: StreamPart[] = text === '' ? [] : [this.#textPart(index, text)]
    if (stop === null) return parts
    this.#stopped.add(index)
    this.#finished.delete(index)
    return [...parts, this.#chunk({ index, delta: {}, ...ending(stop) })]
  }

  #cutChunk(chunk: ChatChunk): StreamPart[] {
    const { choices, ...others } = chunk
    const parts = choices.flatMap(choice => this.#cutChoice(others, choice))
    // A report comes with the last choice, or alone.
    if (choices.length > 0 && chunk.usage == null) return parts
    return [...parts, { ...others, choices: [] }]
  }

  #cutChoice({ usage: _, ...head }: Omit<ChatChunk, 'choices'>, choice: ChunkChoice): StreamPart[] {
    const { index, delta, finish_reason: reason } = choice
    if (this.#stopped.has(index)) return []
    const { content, ...rest } = delta
    const text = typeof content === 'string' ? content : ''
    const own = { ...head, choices: [{ ...choice, delta: text === '' ? delta : rest }] } as ChatChunk
    // What is held back comes before a call and before the end.
    if (reason !== null || rest.tool_calls !== undefined || rest.function_call !== undefined) {
      const parts = text === '' ? [] : this.#cutText(index, text)
      if (this.#stopped.has(index)) return parts
      if (reason === null) this.#hasOutput = true
      else this.#finished.add(index)
      return [...parts, ...this.#rest(index), own]
    }
    const saysMore = Object.keys(rest).some(key => key !== 'role' && rest[key] !== null && rest[key] !== '')
    if (saysMore) this.#hasOutput = true
    const before: StreamPart[] = saysMore ? this.#rest(index) : []
    if (text === '' || saysMore || 'role' in rest || choice.logprobs != null) before.push(own)
    return text === '' ? before : [...before, ...this.#cutText(index, text)]
  }

  #rest(index: number): StreamPart[] {
    const held = this.#stopped.has(index) ? '' : this.#matcher(index).flush()
    if (held === '') return []
    this.#hasOutput = true
    return [this.#textPart(index, held)]
  }

  #textPart(index: number, text: string): StreamPart {
    return index === 0 ? text : this.#chunk({ index, delta: { content: text }, finish_reason: null })
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

  /**
   * The server is left, so its last report is missing. An earlier one counts the prompt, but not the output, unless it
   * counts thoughts: then it was made anew for each chunk, as Gemini's. 0 has the gateway count the text.
   */
  #lastUsage(): StreamPart {
    const { usage } = this.stream
    const thoughts = (usage?.completion_tokens_details as { reasoning_tokens?: number } | undefined)?.reasoning_tokens
    const { prompt_tokens: prompt = 0, completion_tokens: reported = 0 } = usage ?? {}
    const output = thoughts ? reported : this.#hasOutput ? 0 : 1
    const counted: TokenUsage = {
      ...usage,
      prompt_tokens: prompt,
      completion_tokens: output,
      total_tokens: prompt + output,
    }
    const { id, created, model } = this.#envelope
    return { id, object: 'chat.completion.chunk', created, model, choices: [], usage: counted }
  }
}
