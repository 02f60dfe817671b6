import type { Envelope } from '../../../base/domain/completion.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'

/** Starts the id of an answer in the dialect chat. */
const CHAT_PREFIX = /^chatcmpl-/

/** Returns a message without content, ending and usage. Its id contains the id of the request, as in chat. */
export function emptyMessage({ id, model }: Envelope): JsonObject {
  return {
    id: `msg_${requestIdOf({ id })}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
  }
}

/** Returns the id of the request that the id of an answer contains. */
export function requestIdOf({ id }: Pick<Envelope, 'id'>): string {
  return id.replace(CHAT_PREFIX, '')
}
