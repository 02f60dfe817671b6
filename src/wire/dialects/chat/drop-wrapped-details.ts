import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { isWrappedSeal } from '../seal.ts'

/**
 * Returns the messages of a client of chat without the `reasoning_details` that a server of another dialect sealed: no
 * server of chat can read these. Other details stay: the server may have made them.
 */
export function dropWrappedDetails(messages: unknown): unknown {
  if (!Array.isArray(messages) || !messages.some(hasWrapped)) return messages
  return messages.map(message => {
    if (!hasWrapped(message)) return message
    const { reasoning_details: details, ...others } = message
    const kept = details.filter(detail => !isWrapped(detail))
    return kept.length === 0 ? others : { ...others, reasoning_details: kept }
  })
}

function hasWrapped(message: unknown): message is { reasoning_details: unknown[] } {
  if (!isJsonObject(message)) return false
  const { reasoning_details: details } = message
  return Array.isArray(details) && details.some(isWrapped)
}

function isWrapped(detail: unknown): boolean {
  return (
    isJsonObject(detail) &&
    [detail.signature, detail.data].some(seal => typeof seal === 'string' && isWrappedSeal(seal))
  )
}
