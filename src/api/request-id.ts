import { UUID } from '../runtime/uuid.ts'

/** The id of a request in lower case, from its `x-request-id` or from the `id` in the body of its answer, `chatcmpl-` and the same. */
export function readRequestId(text: string): string | undefined {
  const id = text.toLowerCase().replace(/^chatcmpl-/, '')
  return UUID.test(id) ? id : undefined
}
