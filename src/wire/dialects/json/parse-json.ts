import type { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { keyPath } from '../../../base/runtime/key-path.ts'
import { invalidField, missingField } from './body-refusal.ts'
import { duplicateName } from './duplicate-name.ts'
import { hasMoreNames } from './many-names.ts'

// Parses JSON from outside, of clients and of upstreams, with bounds on what that costs. `scanJson` measures both before
// they are parsed.

// ---------------------------------------------------------------- requests of clients

/**
 * Parses a request body: one JSON object in UTF-8, at most 64 levels deep, with at most `delimitersMax` brackets,
 * colons and commas, and no name twice in an object. Throws ApiError `invalid_json`.
 *
 * A member `__proto__` is kept, as an own member of its object, so that a dialect treats it as any other name that it
 * does not know. Spreading and Object.fromEntries copy it as such; `copy[name] = value` would change a prototype: use
 * it for known names only.
 *
 * @param onProto gets each object with a member `__proto__`
 */
export function parseJsonObject(
  body: Buffer,
  delimitersMax = REQUEST_DELIMITERS_MAX,
  onProto: ((object: object) => void) | null = null,
): JsonObject {
  const { colons } = refuseOversizedRequest(body, delimitersMax)
  const text = decode(body)
  const value = parse(text)
  // JSON.parse keeps the last of two members with one name. A proxy that keeps the first would check another request
  // than the one that runs. Each member has a colon in the text.
  if (countMembers(value, onProto) !== colons) throw duplicateMember(text)
  if (!isJsonObject(value)) {
    const found = Array.isArray(value) ? 'an array' : value === null ? 'null' : `a ${typeof value}`
    throw invalidJson(`The body must be one JSON object; got ${found}.`)
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

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const where = /position \d+/.exec(String(cause))?.[0]
    throw invalidJson(
      text.trim() === ''
        ? 'The body is empty. Send one JSON object.'
        : `The body is not valid JSON${where ? ` (at ${where})` : ''}. Send one JSON object, UTF-8 encoded.`,
    )
  }
}

/** Counts the members of all objects inside a parsed value. Recurses as deep as the value. */
function countMembers(value: unknown, onProto: ((object: object) => void) | null): number {
  if (typeof value !== 'object' || value === null) return 0
  let members = 0
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') members += countMembers(item, onProto)
    return members
  }
  for (const key in value) {
    members++
    const child = (value as Record<string, unknown>)[key]
    if (typeof child === 'object') members += countMembers(child, onProto)
    if (onProto !== null && key === '__proto__') onProto(value)
  }
  return members
}

function duplicateMember(text: string): ApiError {
  const name = text.length > SEARCHED_UNITS_MAX ? undefined : duplicateName(text)
  const what = name === undefined ? 'one name' : JSON.stringify(name.slice(0, 60))
  return invalidJson(`The body has ${what} twice in one object. Send each name once.`)
}

/** A search for the name in a longer body would take more than some milliseconds. */
const SEARCHED_UNITS_MAX = 262_144

function refuseOversizedRequest(body: Buffer, delimitersMax: number): JsonScan {
  const isLong = body.length > LONG_BODY_BYTES
  if (isLong && !beginsWithBrace(body)) throw notOneObject()
  const scan = scanJson(body)
  const { depth, delimiters } = scan
  if (depth > DEPTH_MAX) throw invalidJson(`The body is nested deeper than ${DEPTH_MAX} levels. Flatten it.`)
  if (delimiters > delimitersMax) {
    throw invalidJson(
      `The body has ${delimiters} opening brackets, colons and commas outside strings; the limit is ${delimitersMax}. Send fewer fields or items.`,
    )
  }
  if (scan.colons > REQUEST_NAMES_MAX && hasMoreNames(body, REQUEST_NAMES_MAX, endOfString)) {
    throw invalidJson(`The body has more than ${REQUEST_NAMES_MAX} different field names. Send fewer.`)
  }
  if (isLong && !scan.isClosed) throw notOneObject()
  return scan
}

/**
 * The maximum depth. JSON.parse accepts millions of levels, but code that recurses over the result would overflow the
 * stack.
 */
export const DEPTH_MAX = 64

/**
 * The maximum number of opening brackets, colons and commas outside strings. The largest valid body (2,048
 * messages with tool calls, 512 tools) has about 80,000.
 */
const REQUEST_DELIMITERS_MAX = 131_072
/** Different names are the expensive part: 65,000 take about 100 ms to parse, the same number of equal names 15. */
const REQUEST_NAMES_MAX = 16_384
/** A longer body that cannot be an object is refused without JSON.parse, which takes 20 ms for 4 MiB of it. */
const LONG_BODY_BYTES = 65_536

/** Skips a byte order mark and white space. */
function beginsWithBrace(body: Buffer): boolean {
  let at = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 3 : 0
  while (at < body.length && body[at]! <= SPACE) at++
  return body[at] === OPEN_BRACE
}

function notOneObject(): ApiError {
  return invalidJson('The body is not one complete JSON object. Send one JSON object, UTF-8 encoded.')
}

function invalidJson(message: string): ApiError {
  return new ApiError('invalid_json', { message })
}

// ---------------------------------------------------------------- checks of what a request has

/** Throws ApiError for the first issue that `schema` finds in `value`, the field `at` of the body. */
export function checkValue(schema: z.ZodType, value: unknown, at: string): void {
  const result = schema.safeParse(value)
  if (result.success) return
  const { path, message } = firstIssue(result.error.issues)
  let found = value
  for (const step of path) found = (found as JsonObject | undefined)?.[step as string]
  const param = keyPath(path, at)
  throw found === undefined ? missingField(param, message) : invalidField(param, message, found)
}

/**
 * Returns the first issue. For a union it prefers an issue inside one of the branches, which is more specific.
 */
function firstIssue(
  issues: readonly z.core.$ZodIssue[],
  at: readonly PropertyKey[] = [],
): { path: PropertyKey[]; message: string } {
  const issue = elementAt(issues, 0)
  const path = [...at, ...issue.path]
  if (issue.code === 'invalid_union') {
    const deeper = issue.errors.find(branch => (branch[0]?.path.length ?? 0) > 0)
    if (deeper) return firstIssue(deeper, path)
  }
  return { path, message: issue.message }
}

/** Throws ApiError if the object at `param` has more fields than any request needs. */
export function refuseManyKeys(value: JsonObject, param: string): void {
  let keys = 0
  for (const key in value) {
    if (++keys > KEYS_MAX) {
      throw new ApiError('invalid_value', {
        message: `${param === '' ? 'The body' : `"${param}"`} has more than ${KEYS_MAX} fields, such as "${key.slice(0, 40)}". Send only fields of the API.`,
        param: param === '' ? undefined : param,
      })
    }
  }
}

/** OpenAI defines about 40 fields. A body with 300,000 would block the event loop for a second. */
const KEYS_MAX = 256

/** Throws ApiError if `value` is a list of more than `max` items. */
export function refuseLongList(value: unknown, max: number, param: string): void {
  if (Array.isArray(value) && value.length > max) {
    throw new ApiError('invalid_value', {
      message: `"${param}" must have at most ${max} items; it has ${value.length}.`,
      param,
    })
  }
}

/**
 * Whether a JSON body in UTF-8 contains an escaped surrogate. A body without one cannot contain a lone
 * surrogate.
 */
export function mayHaveLoneSurrogates(body: Buffer): boolean {
  return body.includes('\\ud', 0, 'latin1') || body.includes('\\uD', 0, 'latin1')
}

/**
 * Replaces each lone surrogate with U+FFFD, in every text and name inside `value`. Clients that cut a text in
 * the middle of an emoji send one, and repeat it with each later turn. JSON allows it, but DeepSeek, OpenAI
 * and Anthropic reject it (cherry-studio pull request 20614, opencode pull request 17758), and llama.cpp
 * answers 500 (Marinara-Engine issue 3596), so that one conversation would eject its servers.
 */
export function replaceLoneSurrogates(value: object): void {
  const inner = value as Record<string, unknown>
  for (const key of Object.keys(inner)) {
    const child = inner[key]
    if (typeof child === 'string') {
      if (!child.isWellFormed()) inner[key] = child.toWellFormed()
    } else if (typeof child === 'object' && child !== null) {
      replaceLoneSurrogates(child)
    }
    if (!key.isWellFormed()) {
      inner[key.toWellFormed()] = inner[key]
      delete inner[key]
    }
  }
}

// ---------------------------------------------------------------- answers of upstreams

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
export function tallyFor(delimitersMax = 32_768): JsonTally {
  return { delimitersMax, delimiters: 0 }
}

/**
 * Parses a whole answer, which must be a JSON object. Throws UpstreamFailure `malformed`.
 *
 * @param delimitersMax the most delimiters in the JSON; see AnswerBounds
 */
export function parseUpstreamObject(text: string, delimitersMax?: number): JsonObject {
  try {
    const body: unknown = parseUpstreamJson(text, tallyFor(delimitersMax))
    if (isJsonObject(body)) return body
  } catch (error) {
    if (error instanceof UpstreamFailure) throw error
    // Do not pass the error on: V8 quotes the text in it.
    throw new UpstreamFailure('malformed', 'The answer is not valid JSON.')
  }
  throw new UpstreamFailure('malformed', 'The answer is not a JSON object.')
}

function checkedDelimiters(text: string, { delimitersMax }: JsonTally): number {
  const { depth, delimiters } = scanJson(Buffer.from(text))
  if (depth > DEPTH_MAX) throw new UpstreamFailure('malformed', `The answer is nested deeper than ${DEPTH_MAX} levels.`)
  if (delimiters > delimitersMax)
    throw new UpstreamFailure(
      'malformed',
      `The answer has more than ${delimitersMax} opening brackets, colons and commas.`,
    )
  return delimiters
}

// ---------------------------------------------------------------- the cost of both

/**
 * Measures JSON in UTF-8 without parsing it. One pass over the bytes; 4 MiB take a few milliseconds. Stops where the
 * JSON is too deep: 4 MiB of brackets took 20.
 */
function scanJson(json: Buffer): JsonScan {
  let depth = 0
  let deepest = 0
  let commas = 0
  let colons = 0
  let brackets = 0
  let isTextClosed = true
  for (let i = 0; i < json.length; i++) {
    switch (json[i]) {
      case QUOTE:
        i = endOfString(json, i + 1)
        isTextClosed = i < json.length
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++
        brackets++
        if (depth > deepest) deepest = depth
        if (depth > DEPTH_MAX) return { depth, isClosed: false, delimiters: brackets + commas + colons, colons }
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
        break
      case COMMA:
        commas++
        break
      case COLON:
        colons++
    }
  }
  return { depth: deepest, isClosed: isTextClosed && depth === 0, delimiters: brackets + commas + colons, colons }
}

interface JsonScan {
  readonly depth: number
  /** Whether every string and bracket has its end. */
  readonly isClosed: boolean
  /** Opening brackets, colons and commas outside strings. */
  readonly delimiters: number
  /** Colons outside strings. */
  readonly colons: number
}

const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** Longer strings are searched by `indexOf`, which is faster than a loop, but not for short ones. */
const LOOPED_BYTES = 64

/** Returns the index of the closing quote; at least the length of `json` if there is none. */
function endOfString(json: Buffer, from: number): number {
  let i = from
  for (;;) {
    const loopEnd = Math.min(json.length, i + LOOPED_BYTES)
    while (i < loopEnd && json[i] !== QUOTE) i += json[i] === BACKSLASH ? 2 : 1
    if (i < loopEnd || i >= json.length) return i
    const quote = json.indexOf(QUOTE, i)
    if (quote === -1) return json.length
    if (!isEscaped(json, quote, i)) return quote
    i = quote + 1
  }
}

/** Whether an odd number of backslashes, from `boundary` on, precedes the quote. */
function isEscaped(json: Buffer, quote: number, boundary: number): boolean {
  let at = quote
  while (at > boundary && json[at - 1] === BACKSLASH) at--
  return (quote - at) % 2 === 1
}
