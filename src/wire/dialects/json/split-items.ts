import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { DEPTH_MAX } from './parse-json.ts'

/** The JSON of an object in pieces: parsed one by one, they give other requests a turn. */
export interface SplitItems {
  /** The JSON of the object with an empty array in place of the items. */
  readonly rest: string
  /** Where the JSON of each item begins and ends. */
  readonly items: readonly (readonly [start: number, end: number])[]
}

export interface SplitLimits {
  /** Opening brackets, colons and commas outside strings. */
  readonly delimiters: number
  readonly items: number
  /** UTF-16 units of one item. */
  readonly itemUnits: number
  /** UTF-16 units of everything but the items. */
  readonly restUnits: number
}

/** Reading so much takes 1 to 3 ms. */
const UNITS_PER_TURN = 1_048_576

/**
 * Finds the items of the array with this name in a JSON object, without parsing it, and gives other requests turns. If
 * the rest and all items are valid JSON, so is the whole text. Rejects with UpstreamFailure `malformed` if there is no
 * such array, or above the limits.
 */
export async function splitItems(text: string, name: string, limits: SplitLimits): Promise<SplitItems> {
  const finder = new ItemFinder(text, JSON.stringify(name), limits)
  while (finder.advance(UNITS_PER_TURN)) await new Promise<void>(resolve => setImmediate(resolve))
  return finder.result()
}

class ItemFinder {
  readonly #text: string
  readonly #key: string
  readonly #limits: SplitLimits
  readonly #items: [number, number][] = []
  #at = 0
  #depth = 0
  #delimiters = 0
  /** The opening bracket of the array; -1 before it is known. */
  #arrayStart = -1
  /** The closing bracket; -1 before it is reached. */
  #arrayEnd = -1
  #itemStart = -1

  constructor(text: string, key: string, limits: SplitLimits) {
    this.#text = text
    this.#key = key
    this.#limits = limits
  }

  /** Reads so many units. Returns whether some are left. */
  advance(units: number): boolean {
    const text = this.#text
    const stop = Math.min(text.length, this.#at + units)
    let at = this.#at
    for (; at < stop; at++) {
      switch (text.charCodeAt(at)) {
        case QUOTE:
          at = this.#readString(at)
          break
        case OPEN_BRACE:
        case OPEN_BRACKET:
          this.#delimiters++
          if (++this.#depth > DEPTH_MAX) throw malformed(`is nested deeper than ${DEPTH_MAX} levels`)
          if (at === this.#arrayStart) this.#itemStart = at + 1
          break
        case CLOSE_BRACE:
        case CLOSE_BRACKET:
          if (this.#isBetweenItems) this.#endArray(at)
          this.#depth--
          break
        case COMMA:
          this.#delimiters++
          if (this.#isBetweenItems) this.#endItem(at)
          break
        case COLON:
          this.#delimiters++
      }
    }
    this.#at = at
    if (this.#delimiters > this.#limits.delimiters) {
      throw malformed(`has more than ${this.#limits.delimiters} opening brackets, colons and commas`)
    }
    return at < text.length
  }

  result(): SplitItems {
    if (this.#arrayEnd === -1) throw malformed('has no list of data')
    const start = this.#text.slice(0, this.#arrayStart + 1)
    const end = this.#text.slice(this.#arrayEnd)
    if (start.length + end.length > this.#limits.restUnits) throw malformed('has too much besides its data')
    return { rest: start + end, items: this.#items }
  }

  get #isBetweenItems(): boolean {
    return this.#depth === ITEMS_DEPTH && this.#itemStart !== -1 && this.#arrayEnd === -1
  }

  /** Returns the index of the closing quote. */
  #readString(start: number): number {
    const end = endOfString(this.#text, start + 1)
    if (this.#depth === 1 && this.#arrayStart === -1 && this.#text.slice(start, end + 1) === this.#key) {
      this.#arrayStart = arrayAfter(this.#text, end + 1)
    }
    return end
  }

  #endItem(end: number): void {
    this.#items.push([this.#itemStart, end])
    if (end - this.#itemStart > this.#limits.itemUnits) throw malformed('has an item that is too long')
    if (this.#items.length > this.#limits.items) throw malformed('has too many items')
    this.#itemStart = end + 1
  }

  #endArray(end: number): void {
    const isEmpty = this.#items.length === 0 && skipSpace(this.#text, this.#itemStart) === end
    if (!isEmpty) this.#endItem(end)
    this.#arrayEnd = end
  }
}

/** Inside of the object and of the array. */
const ITEMS_DEPTH = 2

const QUOTE = 34
const BACKSLASH = 92
const COMMA = 44
const COLON = 58
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** Returns the index of the closing quote; the length of the text if there is none. */
function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0
    while (quote - backslashes > from && text.charCodeAt(quote - backslashes - 1) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return quote
  }
  return text.length
}

/** Returns the index of the opening bracket if an array is the value of the name before `from`, else -1. */
function arrayAfter(text: string, from: number): number {
  const colon = skipSpace(text, from)
  if (text.charCodeAt(colon) !== COLON) return -1
  const value = skipSpace(text, colon + 1)
  return text.charCodeAt(value) === OPEN_BRACKET ? value : -1
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09
}

function malformed(problem: string): UpstreamFailure {
  return new UpstreamFailure('malformed', `The answer ${problem}.`)
}
