import { elementAt } from '../../../base/runtime/collections.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * The constant parts of a stream's events. Most events differ from the previous one only in the text of
 * `delta.content`, so this class reads the text between the constant parts. In a tight loop, parsing the
 * event, building a chunk and serialising it took more than twice as long, with more garbage.
 */
export class ContentPattern {
  readonly #head: string
  readonly #tail: string

  private constructor(head: string, tail: string) {
    this.#head = head
    this.#tail = tail
  }

  /**
   * Returns the pattern of an event with the content `text`. Null if the event encodes the text differently
   * from JSON.stringify, or if the text is not at its place.
   */
  static of(data: string, text: string, place: TextPlace = chatPlace): ContentPattern | null {
    const literal = JSON.stringify(text)
    const key = data.indexOf(place.key)
    const start = data.indexOf(literal, key)
    if (key === -1 || start === -1) return null
    const head = data.slice(0, start)
    const tail = data.slice(start + literal.length)
    // Proof that this is the content: putting another text there must change the content to that text.
    const probe = `${text}.`
    return parseText(head + JSON.stringify(probe) + tail, place) === probe ? new ContentPattern(head, tail) : null
  }

  /**
   * Returns the content of an event that matches the pattern, or null. Exactly one JSON string must be between
   * the two parts.
   */
  read(data: string): string | null {
    const start = this.#head.length
    const end = data.length - this.#tail.length
    // Not `startsWith`, which compares character by character:
    // docs/decisions/2026-11-22-what-is-expensive-in-v8.md.
    if (end <= start || data.slice(0, start) !== this.#head || data.slice(end) !== this.#tail) return null
    // Avoid JSON.parse: V8 internalizes strings of up to ten characters that it parses, which puts them into
    // its string table and old space.
    if (isPlainString(data, start, end)) return data.slice(start + 1, end - 1)
    if (data.charCodeAt(start) !== QUOTE) return null
    try {
      return JSON.parse(data.slice(start, end))
    } catch {
      return null
    }
  }
}

/** True if the range is one quoted string without escapes. */
function isPlainString(data: string, start: number, end: number): boolean {
  if (end - start < 2 || data.charCodeAt(start) !== QUOTE || data.charCodeAt(end - 1) !== QUOTE) return false
  for (let i = start + 1; i < end - 1; i++) {
    const unit = data.charCodeAt(i)
    if (unit === QUOTE || unit === BACKSLASH || unit < SPACE) return false
  }
  return true
}

const QUOTE = 34
const BACKSLASH = 92
const SPACE = 32

function parseText(data: string, place: TextPlace): unknown {
  try {
    return place.textOf(JSON.parse(data))
  } catch {
    return null
  }
}

/** Where the events of a dialect have the text of an answer. */
export interface TextPlace {
  /** The name of the field with its colon, as it stands in the JSON. */
  readonly key: string
  /** Returns the text of a parsed event that only adds text, or anything else. */
  textOf(event: JsonObject): unknown
}

/** The content of the only choice. With several choices, one of them may exceed `n` and must be dropped. */
export const chatPlace: TextPlace = {
  key: '"content":',
  textOf: ({ choices }) => {
    const list = choices as { delta: JsonObject }[]
    return list.length === 1 ? elementAt(list, 0).delta.content : null
  },
}
