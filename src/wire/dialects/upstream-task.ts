import type { AnswerBounds } from '../../base/domain/answer-bounds.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Envelope, TokenUsage } from '../../base/domain/completion.ts'
import type { Offer } from '../../base/domain/offer.ts'
import type { AnswerReader } from './upstream-dialect.ts'

/** How a task is asked of an upstream, in one of its dialects. */
export interface UpstreamTask {
  /** Appended to the base URL of an endpoint. */
  readonly path: string | ((offer: Offer, stream: boolean) => string)
  /** Lines of the request's head, the same for every request to a path. `accept:` replaces the usual one. Absent: none. */
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
