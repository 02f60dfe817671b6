import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { ChatCompletion, Envelope, TokenUsage } from '../../base/domain/completion.ts'
import type { StreamPart } from '../../base/domain/handoff.ts'
import type { Offer } from '../../base/domain/offer.ts'
import type { AnswerBounds } from '../../base/domain/request-bounds.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'
import type { ExpectedAnswer } from './chat/finish.ts'
import type { JsonTally } from './json/parse-json.ts'
import type { SseEvent } from './sse/sse-decoder.ts'

/** How a task is asked of an upstream, in one of its dialects. */
export interface UpstreamTask {
  /** Appended to the base URL of an endpoint. */
  readonly path: string | ((offer: Offer, stream: boolean) => string)
  /**
   * Lines of the request's head, the same for every request to a path. `accept:` replaces the usual one. Absent: none.
   */
  readonly headers?: readonly string[]
  /** Returns lines of the head that differ between requests to a path. Absent: none. */
  requestHeaders?(job: ChatJob): readonly string[]
  /** Returns the JSON body. `maxTokens`: the limit of output tokens per choice. */
  requestBody(job: ChatJob, offer: Offer, maxTokens: number): string
  /** How much the upstream may send. */
  bounds(job: ChatJob, maxTokens: number): AnswerBounds
  /**
   * Reads an answer with status 200 that was computed from the input, and encodes it for the client. Throws
   * UpstreamFailure if it is not what the job asks for. Null: the answer is generated text.
   */
  readonly readData:
    | ((text: string, job: ChatJob, envelope: Envelope, bounds: AnswerBounds) => DataBody | Promise<DataBody>)
    | null
  /** Returns what reads answers of generated text. Absent: they are answers of chat. */
  reader?(job: ChatJob, offer: Offer): AnswerReader
}

/** See DataAnswer. */
export interface DataBody {
  readonly body: string
  readonly usage: TokenUsage | null
}

/**
 * How the answers of one kind of servers are read. Between the stages they have the shapes of chat, whatever the
 * dialect of the server, so metering, cutting and billing are the same for all.
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
