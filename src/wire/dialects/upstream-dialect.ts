import type { ChatCompletion, Envelope, TokenUsage } from '../../base/domain/completion.ts'
import type { StreamPart } from '../../base/domain/handoff.ts'
import type { ByteAccount } from '../../base/runtime/byte-budget.ts'
import type { ExpectedAnswer } from './chat/empty-answer.ts'
import type { JsonTally } from './json/parse-json.ts'
import type { SseEvent } from './sse/sse-decoder.ts'

/**
 * How the answers of one kind of servers are read. Between the stages they have the shapes of chat, whatever the dialect
 * of the server, so metering, cutting and billing are the same for all.
 */
export interface AnswerReader {
  /** Returns the reader of one stream. */
  stream(envelope: Envelope, expected: ExpectedAnswer): StreamNormaliser
  /** Reads a whole answer with status 200. Throws UpstreamFailure. */
  whole(text: string, envelope: Envelope, expected: ExpectedAnswer): ChatCompletion
  /** Returns what splits the bytes of one stream into events. Absent: they are server-sent events. */
  eventDecoder?(eventBytesMax: number, account: ByteAccount): EventDecoder
}

/** Splits the bytes of one stream into events, however they arrive. Throws UpstreamFailure. */
export interface EventDecoder {
  /** The lines or frames read so far. */
  readonly lines: number
  push(bytes: Buffer): SseEvent[]
  /** Returns the events that the end of the stream completes. */
  end(): SseEvent[]
}

/** Turns the events of one stream into chunks. Holds the state of one stream and cannot be reused. */
export interface StreamNormaliser extends JsonTally {
  /** True after the last event: later ones are ignored. */
  readonly done: boolean
  /** The last usage report so far; null if there was none. */
  readonly usage: TokenUsage | null
  /** True if the answer is complete. A later failure can only cost the usage report. */
  readonly complete: boolean
  /** True if the answer is complete for certain, so that only the usage report is missing. */
  readonly awaitsUsage: boolean
  /** Returns the text of an event that adds only text, as most do. Null for any other event; `push` must read it. */
  text(event: SseEvent): string | null
  /** Returns the chunks of one event, often none. Throws UpstreamFailure. */
  push(event: SseEvent): StreamPart[]
  /** Returns the chunks due at the end of the stream. Throws UpstreamFailure if the stream broke off. */
  end(): StreamPart[]
}
