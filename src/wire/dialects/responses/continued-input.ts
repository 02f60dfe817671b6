import { ApiError } from '../../../base/domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

// The items of a conversation are kept as the text between the brackets of their JSON array: so they take exactly their
// bytes, outside of the JavaScript heap.

/** The input of a request, and its items as they are kept. */
interface ContinuedInput {
  readonly input: unknown
  readonly items: Buffer
  /** How many items of the input are older than the request. */
  readonly addedFrom: number
}

/**
 * Returns the whole input of a request that continues a response: the items of the conversation so far, and the new
 * ones. Throws ApiError `invalid_value` for the output of a call that nobody made: a client that sends one has lost
 * track of the conversation. An input that is neither a text nor a list is returned for the reader to refuse.
 *
 * @param kept the conversation so far; null if the request begins one
 */
export function continuedInput(kept: Buffer | null, input: unknown): ContinuedInput {
  const added = typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : input
  if (kept === null)
    return { input: added, items: Array.isArray(added) ? joined(nothing, added) : nothing, addedFrom: 0 }
  if (added !== undefined && added !== null && !Array.isArray(added)) return { input: added, items: kept, addedFrom: 0 }
  const before = JSON.parse(`[${kept.toString()}]`) as JsonObject[]
  const whole = [...before, ...(added ?? [])]
  refuseUnknownCalls(whole, before.length)
  return { input: whole, items: joined(kept, added ?? []), addedFrom: before.length }
}

/** Returns an error about an item of the input with the position that the item has in the request. */
export function namedAsSent(error: ApiError, addedFrom: number): ApiError {
  const { code, message, param, retryAfterS, facts, internal } = error
  const [name, position] = /^input\[(\d+)\]/.exec(param ?? '') ?? []
  if (name === undefined || addedFrom === 0 || Number(position) < addedFrom) return error
  const sent = `input[${Number(position) - addedFrom}]`
  const named = { message: message.replaceAll(name, sent), param: param?.replace(name, sent) }
  return new ApiError(code, { ...named, retryAfterS, facts, internal })
}

/** Returns kept items with more behind them. */
export function joined(kept: Buffer, items: readonly unknown[]): Buffer {
  if (items.length === 0) return kept
  const added = JSON.stringify(items).slice(1, -1)
  return kept.length === 0 ? Buffer.from(added) : Buffer.concat([kept, Buffer.from(`,${added}`)])
}

const nothing = Buffer.alloc(0)

function refuseUnknownCalls(items: readonly unknown[], addedFrom: number): void {
  const called = new Set<unknown>()
  for (const [index, item] of items.entries()) {
    if (!isJsonObject(item) || typeof item.type !== 'string' || typeof item.call_id !== 'string') continue
    if (!item.type.endsWith('_output')) called.add(item.call_id)
    else if (index >= addedFrom && !called.has(item.call_id)) {
      const id = item.call_id.slice(0, 80)
      throw new ApiError('invalid_value', {
        message: `No tool call found for the ${item.type} with call_id ${JSON.stringify(id)}. Send the conversation again, without previous_response_id.`,
        param: 'input',
      })
    }
  }
}
