import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { ChatChunk, Envelope, TokenUsage } from '../../../base/domain/completion.ts'
import type { ApiError } from '../../../base/domain/errors.ts'
import type { StreamEncoder, StreamFormat } from '../client-dialect.ts'
import { errorBody } from '../openai-error-body.ts'

/** The last event of a complete stream. A stream that failed ends without it. */
const DONE = 'data: [DONE]\n\n'

/** OpenAI's chat completion chunks as server-sent events. */
export const chatStream = {
  // openai-go before its pull request 621 (2026) fails at the blank line. Without it, clients that split the
  // stream at blank lines would treat the next event as part of the comment.
  ping: ': ping\n\n',
  encoder: (envelope: Envelope, { includeUsage }: Pick<ChatJob, 'includeUsage'>) =>
    new ChatStreamEncoder(envelope, includeUsage),
  isComplete: (events: string) => events.endsWith(DONE),
} satisfies StreamFormat

class ChatStreamEncoder implements StreamEncoder {
  readonly #envelope: Envelope
  readonly #includeUsage: boolean
  /** Text chunks of one stream differ only in their content, so the text around it is encoded once. */
  readonly #textHead: string
  readonly #textTail: string

  constructor(envelope: Envelope, includeUsage: boolean) {
    this.#envelope = envelope
    this.#includeUsage = includeUsage
    const empty = this.chunk({ ...this.textChunk(''), ...(includeUsage && { usage: null }) })
    const gap = empty.lastIndexOf('""')
    this.#textHead = empty.slice(0, gap)
    this.#textTail = empty.slice(gap + 2)
  }

  text(content: string): string {
    return this.#textHead + JSON.stringify(content) + this.#textTail
  }

  chunk(chunk: ChatChunk): string {
    return `data: ${JSON.stringify(chunk)}\n\n`
  }

  textChunk(content: string): ChatChunk {
    const { id, created, model } = this.#envelope
    const choices = [{ index: 0, delta: { content }, finish_reason: null }]
    return { id, object: 'chat.completion.chunk', created, model, choices }
  }

  end(usage: TokenUsage): string {
    return this.#includeUsage ? this.chunk(usageChunk(this.#envelope, usage)) + DONE : DONE
  }

  /**
   * Returns an event with only an `error`, as OpenAI sends it. With `choices` in the same object, as OpenRouter sends
   * it, `@ai-sdk/openai` up to version 4 and `@ai-sdk/openai-compatible` up to 1 drop the error and end as if the answer
   * were complete. go-openai looks for `data: {"error":`. It is not a named event, because openai-python and openai-js 6
   * pass those on as ordinary chunks.
   */
  fail(error: ApiError): string {
    return `data: ${errorBody(error)}\n\n`
  }
}

/** Returns the chunk with the usage, which follows the last finish_reason if the client requested it. */
export function usageChunk({ id, created, model }: Envelope, usage: TokenUsage): ChatChunk {
  return { id, object: 'chat.completion.chunk', created, model, choices: [], usage }
}
