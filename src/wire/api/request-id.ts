import { UUID } from '../../base/runtime/uuid.ts'

/**
 * Reads a request id, with or without the prefix of an answer's id: `chatcmpl-`, `cmpl-`, `rerank-`, `resp_` or
 * `msg_`. Returns it in lower case, or undefined if it is not a UUID.
 */
export function readRequestId(text: string): string | undefined {
  const id = text.toLowerCase().replace(/^(?:chatcmpl-|cmpl-|rerank-|resp_|msg_)/, '')
  return UUID.test(id) ? id : undefined
}
