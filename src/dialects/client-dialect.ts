import type { ZodType } from 'zod'
import type { ChatJob } from '../domain/chat-job.ts'
import type { ChatChunk, ChatCompletion, Envelope, TokenUsage } from '../domain/completion.ts'
import type { ApiError } from '../domain/errors.ts'

/**
 * How the clients of one generation endpoint speak: how their requests are read and how answers, streams and
 * errors are written for them. Admission, routing, dispatch, metering and settlement are the same for every
 * dialect.
 */
export interface ClientDialect {
  /** Request target of the endpoint, for example `/v1/chat/completions`. */
  readonly path: string
  readonly operation: DialectOperation
  /** Parses a request body. Throws ApiError `invalid_json` or `invalid_value`, which names the field. */
  parseRequest(body: Buffer): ChatJob
  readonly answer: AnswerFormat
  readonly stream: StreamFormat
  /** JSON body of an error response. */
  errorBody(error: ApiError): string
}

/** What the OpenAPI document says about the endpoint. */
export interface DialectOperation {
  readonly operationId: string
  readonly tag: 'Chat'
  readonly summary: string
  readonly body: ZodType
  readonly answer: ZodType
  readonly answerDescription: string
  /** The `text/event-stream` answer. */
  readonly stream: { readonly description: string; readonly example: string }
}

/**
 * Whole answers. Encoding has two steps because the charge is known only after the answer is known to be
 * encodable.
 */
export interface AnswerFormat {
  /** The answer as text, still without usage. Throws where it is nested too deeply. */
  encode(answer: Omit<ChatCompletion, 'usage'>): string
  /** Completes the text with the usage that is billed. */
  withUsage(text: string, usage: TokenUsage): string
}

/** Streamed answers. Every function returns complete events, ready to be sent. */
export interface StreamFormat {
  /** Keeps proxies from closing a silent connection; clients ignore it. */
  readonly ping: string
  /** The encoder of one answer. `includeUsage`: the client asked for usage in the stream. */
  encoder(envelope: Envelope, includeUsage: boolean): StreamEncoder
  /** The last event of a stream that failed after its first content. */
  errorEvent(error: ApiError): string
  /** Whether these events are a complete answer, from the first to the last event of a successful stream. */
  isComplete(events: string): boolean
}

/** Encodes the events of one answer. */
export interface StreamEncoder {
  /** The next content of the first choice: most chunks are that. */
  text(content: string): string
  chunk(chunk: ChatChunk): string
  /** What `chunk` would get for a text, for the rare chunk that needs more than its text. */
  chunkOf(content: string): ChatChunk
  /** Ends a successful stream. `usage` is written only if the client asked for it. */
  end(usage: TokenUsage): string
}
