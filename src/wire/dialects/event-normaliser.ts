import type { AnswerEvent, UsageParts } from '../../base/domain/answer-event.ts'
import type { ChatCompletion, Envelope, TokenUsage } from '../../base/domain/completion.ts'
import type { StreamPart } from '../../base/domain/handoff.ts'
import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { answerToCompletion } from './chat/answer-to-completion.ts'
import { ChunkEncoder } from './chat/chunk-encoder.ts'
import { type ExpectedAnswer, judgeCompletion } from './chat/finish.ts'
import { tokenUsage } from './chat/usage.ts'
import { type EventField, EventPattern } from './event-pattern.ts'
import type { JsonTally } from './json/parse-json.ts'
import type { SseEvent } from './sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from './upstream-task.ts'

/** Turns the events of one stream of another dialect than chat into neutral ones. */
export interface StreamDecoder extends JsonTally {
  readonly usage: UsageParts | null
  readonly done: boolean
  readonly complete: boolean
  push(event: SseEvent): AnswerEvent[]
  end(): AnswerEvent[]
}

/** A decoder with what `EventPattern` needs of its dialect. */
export interface AnswerDecoder extends StreamDecoder {
  /** The fields that differ between events which only add text. */
  readonly textFields: readonly EventField[]
  /**
   * Names the part of the answer to which an event like the last one with text would add at once. Null if its text
   * would have to wait or be dropped.
   */
  readonly textTarget: number | null
  /** Takes the data of an event that only adds text and was not parsed. Absent: the text is all of it. */
  skip?(data: string): void
}

/** What differs between the readers of two dialects. */
export interface AnswerDecoding {
  decoder(envelope: Envelope, delimitersMax: number): AnswerDecoder
  /** Returns the events of a whole answer. Throws UpstreamFailure. */
  whole(text: string, envelope: Envelope, delimitersMax: number): AnswerEvent[]
}

/** Returns the reader of a dialect that a decoder turns into neutral events. */
export function eventReader({ decoder, whole }: AnswerDecoding): AnswerReader {
  return {
    stream: (envelope, { bounds }) => new EventNormaliser(decoder(envelope, bounds.delimiters), envelope),
    whole: (text, envelope, expected) =>
      completionOf(whole(text, envelope, expected.bounds.delimiters), envelope, expected),
  }
}

/** Returns the completion for the events of a whole answer. Throws UpstreamFailure if it has no output. */
export function completionOf(
  events: readonly AnswerEvent[],
  envelope: Envelope,
  expected: ExpectedAnswer,
): ChatCompletion {
  const completion = answerToCompletion(events, envelope)
  if (judgeCompletion(completion, expected) !== 'invalid') return completion
  throw new UpstreamFailure('empty', 'The answer has no output.')
}

/** The longest event that a pattern is made of, in UTF-16 units: the pattern keeps it in memory. */
export const PATTERN_UNITS_MAX = 4_096

/**
 * Encodes the events of a decoder as those of chat. Events that only add text are read by a pattern, without the
 * decoder.
 */
export abstract class DecodedNormaliser<Decoder extends StreamDecoder> implements StreamNormaliser {
  protected readonly decoder: Decoder
  readonly #encoder: ChunkEncoder

  constructor(decoder: Decoder, envelope: Envelope) {
    this.decoder = decoder
    this.#encoder = new ChunkEncoder(envelope)
  }

  get delimitersMax(): number {
    return this.decoder.delimitersMax
  }

  get delimiters(): number {
    return this.decoder.delimiters
  }

  get done(): boolean {
    return this.decoder.done
  }

  get complete(): boolean {
    return this.decoder.complete
  }

  get awaitsUsage(): boolean {
    return this.decoder.complete
  }

  get usage(): TokenUsage | null {
    const { usage } = this.decoder
    return usage && tokenUsage(usage)
  }

  push(event: SseEvent): StreamPart[] {
    const events = this.decoder.push(event)
    const [first] = events
    if (first?.kind === 'text' && events.length === 1 && event.data.length <= PATTERN_UNITS_MAX) {
      this.learnPattern(event, first.text)
    }
    return this.encode(events)
  }

  end(): StreamPart[] {
    return this.encode(this.decoder.end())
  }

  abstract text(event: SseEvent): string | null

  /** Called with an event that only added `text`. */
  protected abstract learnPattern(event: SseEvent, text: string): void

  protected encode(events: readonly AnswerEvent[]): StreamPart[] {
    return events.flatMap(each => this.#encoder.push(each))
  }
}

/**
 * Learning stops after so many patterns that no event matched. The first event of some servers differs from the others.
 */
const USELESS_PATTERNS_MAX = 3

class EventNormaliser extends DecodedNormaliser<AnswerDecoder> {
  /** Made from an event that only added text. */
  #pattern: EventPattern | null = null
  /** The name and the target of that event. */
  #patternEvent = ''
  #patternTarget: number | null = null
  #uselessPatterns = 0

  text({ event, data }: SseEvent): string | null {
    const { decoder } = this
    if (this.#pattern === null || event !== this.#patternEvent || decoder.textTarget !== this.#patternTarget)
      return null
    // An event with an empty text yields nothing.
    const text = this.#pattern.read(data) || null
    if (text === null) return null
    this.#uselessPatterns = 0
    decoder.skip?.(data)
    return text
  }

  protected learnPattern({ event, data }: SseEvent, text: string): void {
    const { textTarget, textFields } = this.decoder
    if (textTarget === null || this.#uselessPatterns === USELESS_PATTERNS_MAX) return
    this.#uselessPatterns++
    const pattern = EventPattern.of(data, text, textFields)
    if (pattern === null) return
    this.#pattern = pattern
    this.#patternEvent = event
    this.#patternTarget = textTarget
  }
}
