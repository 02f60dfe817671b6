import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { classifyError } from '../chat/classify-error.ts'
import { readUpstreamError } from '../chat/upstream-error.ts'
import { MessagesDecoder } from './messages-decoder.ts'

/**
 * Turns a whole message of an upstream into the events of an answer, the same that a stream gives. Throws
 * UpstreamFailure: `malformed` if it is no message, or the outcome of an error in the body.
 *
 * @param readsCitations see MessagesDecoder
 */
export function messageToAnswer(body: JsonObject, readsCitations = false): AnswerEvent[] {
  const error = body.type === 'error' ? readUpstreamError(body, true) : readUpstreamError(body)
  if (error) throw classifyError(null, error)
  if (!Array.isArray(body.content)) throw new UpstreamFailure('malformed', 'The answer has no content.')
  const decoder = new MessagesDecoder(undefined, readsCitations)
  const events: AnswerEvent[] = []
  body.content.forEach((block: unknown, index) => {
    if (!isJsonObject(block)) return
    events.push(...decoder.read({ type: 'content_block_start', index, content_block: block }))
    events.push(...decoder.read({ type: 'content_block_stop', index }))
  })
  const { stop_reason, stop_sequence, stop_details, usage } = body
  events.push(...decoder.read({ type: 'message_delta', delta: { stop_reason, stop_sequence, stop_details }, usage }))
  decoder.read({ type: 'message_stop' })
  return [...events, ...decoder.end()]
}
