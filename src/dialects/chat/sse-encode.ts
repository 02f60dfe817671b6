import type { ChatChunk, TokenUsage } from '../../domain/completion.ts'
import type { ApiError } from '../../domain/errors.ts'
import { errorBody } from '../error-body.ts'
import type { Envelope } from './envelope.ts'

/** The last event of a complete stream. A stream that failed ends without it. */
export const DONE = 'data: [DONE]\n\n'

/**
 * A comment that keeps proxies from giving up on a silent stream. SDKs ignore it, but for openai-go before its pull request 621 (2026), which fails at the
 * blank line. Without that, clients that cut the stream at blank lines would take the next event for a comment.
 */
export const PING = ': ping\n\n'

/** One chunk as one event. */
export function encodeChunk(chunk: ChatChunk): string {
  return `data: ${JSON.stringify(chunk)}\n\n`
}

/** The chunk of a text that is the content of the first choice. */
export function textChunk(envelope: Envelope, content: string): ChatChunk {
  const choices = [{ index: 0, delta: { content }, finish_reason: null }]
  return { id: envelope.id, object: 'chat.completion.chunk', created: envelope.created, model: envelope.model, choices }
}

/** What `encodeChunk` makes of the text chunks of one stream, without making the chunks: they differ in their content alone. */
export function textEncoder(envelope: Envelope, includeUsage: boolean): (content: string) => string {
  const empty = encodeChunk({ ...textChunk(envelope, ''), ...(includeUsage && { usage: null }) })
  const at = empty.lastIndexOf('""')
  const head = empty.slice(0, at)
  const tail = empty.slice(at + 2)
  return content => head + JSON.stringify(content) + tail
}

/** The chunk that follows the last finish_reason when the client asked for usage. */
export function usageChunk(envelope: Envelope, usage: TokenUsage): ChatChunk {
  return {
    id: envelope.id,
    object: 'chat.completion.chunk',
    created: envelope.created,
    model: envelope.model,
    choices: [],
    usage,
  }
}

/**
 * The last event of a stream that failed after its first content, as OpenAI sends it: an `error` and nothing else. With `choices` beside it, as
 * OpenRouter has it, it is a chunk to @ai-sdk/openai up to version 4 and @ai-sdk/openai-compatible up to 1, which drop the error and end as if all was
 * well; go-openai looks for `data: {"error":`. Not a named event: openai-python and openai-js 6 hand those over as ordinary chunks.
 */
export function encodeErrorChunk(error: ApiError): string {
  return `data: ${errorBody(error)}\n\n`
}
