import type { AnswerEvent, UsageParts } from '../domain/answer-event.ts'
import type { ChatCompletion, Envelope, TokenUsage } from '../domain/completion.ts'
import type { StreamPart } from '../domain/handoff.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import { answerToCompletion } from './chat/answer-to-completion.ts'
import { ChunkEncoder } from './chat/chunk-encoder.ts'
import { type ExpectedAnswer, judgeCompletion } from './chat/empty-answer.ts'
import { tokenUsage } from './chat/usage-parts.ts'
import type { JsonTally } from './json/parse-json.ts'
import type { SseEvent } from './sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from './upstream-dialect.ts'

/** Turns the events of one stream of another dialect than chat into neutral ones. */
export interface AnswerDecoder extends JsonTally {
  readonly usage: UsageParts | null
  readonly done: boolean
  readonly complete: boolean
  push(event: SseEvent): AnswerEvent[]
  end(): AnswerEvent[]
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

class EventNormaliser implements StreamNormaliser {
  readonly #decoder: AnswerDecoder
  readonly #encoder: ChunkEncoder

  constructor(decoder: AnswerDecoder, envelope: Envelope) {
    this.#decoder = decoder
    this.#encoder = new ChunkEncoder(envelope)
  }

  get delimitersMax(): number {
    return this.#decoder.delimitersMax
  }

  get delimiters(): number {
    return this.#decoder.delimiters
  }

  get done(): boolean {
    return this.#decoder.done
  }

  get complete(): boolean {
    return this.#decoder.complete
  }

  get awaitsUsage(): boolean {
    return this.#decoder.complete
  }

  get usage(): TokenUsage | null {
    const { usage } = this.#decoder
    return usage && tokenUsage(usage)
  }

  text(): null {
    return null
  }

  push(event: SseEvent): StreamPart[] {
    return this.#decoder.push(event).flatMap(each => this.#encoder.push(each))
  }

  end(): StreamPart[] {
    return this.#decoder.end().flatMap(each => this.#encoder.push(each))
  }
}
