import type { ZodType } from 'zod'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { ChatChunk, ChatCompletion, Envelope, TokenUsage } from '../../base/domain/completion.ts'
import type { ApiError } from '../../base/domain/errors.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'

/**
 * The wire format of one generation endpoint: how requests are parsed, and how answers, streams and errors are
 * written. Admission, routing, dispatch, metering and settlement are the same for every dialect.
 */
export interface ClientDialect {
  /**
   * The path of the endpoint, for example `/v1/chat/completions`. `{model}` in it stands for any text; the endpoint
   * then needs `ofTarget`.
   */
  readonly path: string
  /**
   * Returns the dialect of one request, for an address that says more than the body. Its path is that of the request.
   */
  ofTarget?(target: string): ClientDialect
  readonly operation: DialectOperation
  /** Parses a request body. Throws ApiError `invalid_json` or `invalid_value`, which names the field. */
  parseRequest(body: Buffer): ChatJob
  readonly answer: AnswerFormat
  readonly stream: StreamFormat
  /** JSON body of an error response. */
  errorBody(error: ApiError, requestId: string): string
  /** Another header with the request id, besides `x-request-id`. */
  readonly requestIdHeader?: string
}

/** The description of the endpoint in the OpenAPI document. */
export interface DialectOperation {
  readonly operationId: string
  readonly tag: 'Chat' | 'Embeddings'
  readonly summary: string
  readonly description: string
  /** The parameters of the path and of the query, by name. */
  readonly pathParameters?: ZodType
  readonly query?: ZodType
  readonly body: ZodType
  readonly answer: ZodType
  readonly answerDescription: string
  /** The data of each event of a stream; absent if answers are never streamed. */
  readonly chunk?: ZodType
  /** The body of an error; absent if it is OpenAI's. */
  readonly error?: ZodType
}

/**
 * The format of non-streaming answers. Encoding has two steps, because the charge is settled only after the
 * answer is known to be encodable.
 */
export interface AnswerFormat {
  /** Encodes the answer to `job` without its usage. Throws if the answer is nested too deeply. */
  encode(answer: Omit<ChatCompletion, 'usage'>, job: ChatJob): string
  /** Adds the billed usage to the encoded answer. */
  withUsage(text: string, usage: TokenUsage): string
}

/** The format of streamed answers. Every function returns complete events, ready to be sent. */
export interface StreamFormat {
  /** Default: server-sent events. */
  readonly contentType?: string
  /** Keeps proxies from closing a silent connection; clients ignore it. */
  readonly ping: string
  /**
   * Returns the encoder of the answer to `job`. `memory` pays for what it keeps of the answer; default: not counted.
   */
  encoder(envelope: Envelope, job: ChatJob, memory?: ByteAccount): StreamEncoder
  /** True if `events` are a complete answer: every event of a successful stream. */
  isComplete(events: string): boolean
}

/** Encodes the events of one answer. */
export interface StreamEncoder {
  /** Encodes the next text of the first choice, which most chunks carry. */
  text(content: string): string
  chunk(chunk: ChatChunk): string
  /** Returns the chunk that `text` would encode, for callers that add more fields to it. */
  textChunk(content: string): ChatChunk
  /** Ends a successful stream. `usage` is written only if the client requested it. */
  end(usage: TokenUsage): string
  /** Ends a stream that failed. */
  fail(error: ApiError): string
}
