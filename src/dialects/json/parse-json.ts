import { ApiError } from '../../domain/errors.ts'
import { UpstreamFailure } from '../../domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../runtime/json-object.ts'

/**
 * The maximum depth. JSON.parse accepts millions of levels, but code that recurses over the result would
 * overflow the stack.
 */
const DEPTH_MAX = 64

/**
 * The maximum number of opening brackets, colons and commas outside strings. The largest valid body (2,048
 * messages with tool calls, 512 tools) has about 80,000. Distinct names are the expensive part: 65,000 take
 * about 100 ms to parse, and 4 MiB of them blocked the event loop for two seconds.
 */
const REQUEST_DELIMITERS_MAX = 131_072
/** Matches the key itself, or one of its letters written as an escape, which encoders never do. */
const mayHavePrototypeKey = /__proto__|\\u00(5f|6f|7[024])/i
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a request body that must be one JSON object in UTF-8, at most 64 levels deep, with at most about
 * 65,000 values. Removes `__proto__` keys at every level, so that copying from the result cannot change a
 * prototype. Throws ApiError `invalid_json`.
 */
export function parseJsonObject(body: Buffer): JsonObject {
  refuseOversizedRequest(body)
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

function refuseOversizedRequest(body: Buffer): void {
  const { depth, delimiters } = measureJson(body)
  if (depth > DEPTH_MAX) throw invalidJson(`The body is nested deeper than ${DEPTH_MAX} levels. Flatten it.`)
  if (delimiters > REQUEST_DELIMITERS_MAX) {
    throw invalidJson(
      `The body has ${delimiters} opening brackets, colons and commas outside strings; the limit is ${REQUEST_DELIMITERS_MAX}. Send fewer fields or items.`,
    )
  }
}

function invalidJson(message: string): ApiError {
  return new ApiError('invalid_json', { message })
}

/** Texts up to this length, in UTF-16 units, are too short to be deep or large. Nearly all texts are shorter. */
const UNMEASURED_UNITS_MAX = 4_096

/**
 * What the JSON of one upstream may cost to parse, counted in delimiters: opening brackets, colons and commas
 * outside strings.
 */
export interface JsonTally {
  /** The most delimiters in one text. */
  readonly delimitersMax: number
  /** The sum over all texts so far. A short text counts a quarter of its length. */
  delimiters: number
}

/** Returns the tally for one text. */
export function tallyFor(delimitersMax = 131_072): JsonTally {
  return { delimitersMax, delimiters: 0 }
}

/**
 * Parses JSON of an upstream and adds its cost to `tally`. Throws UpstreamFailure `malformed` if it is too
 * deep or has too many delimiters, and SyntaxError if it is not JSON. V8 turns 16 MiB of brackets into 500 MB
 * of objects in three seconds and takes another forty to serialise them, which blocks every other request.
 */
export function parseUpstreamJson(text: string, tally: JsonTally = tallyFor()): unknown {
  tally.delimiters += text.length > UNMEASURED_UNITS_MAX ? checkedDelimiters(text, tally) : text.length >> 2
  // Skip a byte order mark, as RFC 8259, 8.1 allows and fetch does.
  return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text)
}

function checkedDelimiters(text: string, { delimitersMax }: JsonTally): number {
  const { depth, delimiters } = measureJson(Buffer.from(text))
  if (depth > DEPTH_MAX) throw new UpstreamFailure('malformed', `The answer is nested deeper than ${DEPTH_MAX} levels.`)
  if (delimiters > delimitersMax)
    throw new UpstreamFailure(
      'malformed',
      `The answer has more than ${delimitersMax} opening brackets, colons and commas.`,
    )
  return delimiters
}

const BACKSLASH = 92
const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/**
 * Measures JSON in UTF-8 without parsing it: its depth, and `delimiters`, the number of opening brackets,
 * colons and commas outside strings. One pass over the bytes; 4 MiB take a few milliseconds.
 */
function measureJson(json: Buffer): { readonly depth: number; readonly delimiters: number } {
  let depth = 0
  let deepest = 0
  let delimiters = 0
  for (let i = 0; i < json.length; i++) {
    switch (json[i]) {
      case QUOTE:
        i = endOfString(json, i + 1)
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++
        delimiters++
        if (depth > deepest) deepest = depth
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
        break
      case COMMA:
      case COLON:
        delimiters++
    }
  }
  return { depth: deepest, delimiters }
}

/**
 * Returns the index of the closing quote, or of the end. A separate loop halves the time, because most bytes
 * are in strings.
 */
function endOfString(json: Buffer, from: number): number {
  let i = from
  while (i < json.length && json[i] !== QUOTE) i += json[i] === BACKSLASH ? 2 : 1
  return i
}
