import { ApiError } from '../../domain/errors.ts'
import { isJsonObject, type JsonObject } from '../../runtime/json-object.ts'
import { DEPTH_MAX, measureJson } from './measure-json.ts'

/**
 * Most opening brackets, colons and commas outside strings. The largest valid body (2,048 messages with tool
 * calls, 512 tools) has about 80,000. Distinct names are the expensive part: 65,000 take about 100 ms to
 * parse, and 4 MiB of them blocked the event loop for two seconds.
 */
const DELIMITERS_MAX = 131_072
/** Matches the key itself, or one of its letters written as an escape, which encoders never do. */
const mayHavePrototypeKey = /__proto__|\\u00(5f|6f|7[024])/i
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a request body that must be one JSON object in UTF-8, at most 64 levels deep, with at most about
 * 65,000 values. Removes `__proto__` keys at every level, so that copying from the result cannot change a
 * prototype. Throws ApiError `invalid_json`.
 */
export function parseJsonObject(body: Buffer): JsonObject {
  refuseOversizedJson(body)
  const value = parse(decode(body))
  if (!isJsonObject(value)) {
    throw invalidJson(
      `The body must be one JSON object; got ${Array.isArray(value) ? 'an array' : value === null ? 'null' : `a ${typeof value}`}.`,
    )
  }
  return value
}

function decode(body: Buffer): string {
  try {
    return utf8.decode(body)
  } catch {
    throw invalidJson('The body is not valid UTF-8. Encode the JSON as UTF-8.')
  }
}

function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    if (mayHavePrototypeKey.test(text)) removePrototypeKeys(value)
    return value
  } catch (cause) {
    const where = /position \d+/.exec(String(cause))?.[0]
    throw invalidJson(
      text.trim() === ''
        ? 'The body is empty. Send one JSON object.'
        : `The body is not valid JSON${where ? ` (at ${where})` : ''}. Send one JSON object, UTF-8 encoded.`,
    )
  }
}

/** Recurses as deep as the body, which is at most 64 levels. */
function removePrototypeKeys(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) Reflect.deleteProperty(value, '__proto__')
  for (const child of Object.values(value)) removePrototypeKeys(child)
}

function refuseOversizedJson(body: Buffer): void {
  const { depth, delimiters } = measureJson(body)
  if (depth > DEPTH_MAX) throw invalidJson(`The body is nested deeper than ${DEPTH_MAX} levels. Flatten it.`)
  if (delimiters > DELIMITERS_MAX) {
    throw invalidJson(
      `The body has ${delimiters} opening brackets, colons and commas outside strings; the limit is ${DELIMITERS_MAX}. Send fewer fields or items.`,
    )
  }
}

function invalidJson(message: string): ApiError {
  return new ApiError('invalid_json', { message })
}
