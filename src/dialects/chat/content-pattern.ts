/**
 * What the events of a stream have in common: in most of them nothing but the text of `delta.content` differs from the one before.
 * Such an event is read by taking the text out from between the two parts that stay the same: parsing it whole, building a chunk and
 * writing that as JSON again made the way from bytes to bytes more than twice as long in a tight loop, with more garbage.
 */
export class ContentPattern {
  readonly #head: string
  readonly #tail: string

  private constructor(head: string, tail: string) {
    this.#head = head
    this.#tail = tail
  }

  /**
   * The pattern of an event whose content is `text`; null when the text is not found as we would write it, or is not what its first
   * choice carries.
   */
  static of(data: string, text: string): ContentPattern | null {
    const literal = JSON.stringify(text)
    const key = data.indexOf('"content":')
    const start = data.indexOf(literal, key)
    if (key === -1 || start === -1) return null
    const head = data.slice(0, start)
    const tail = data.slice(start + literal.length)
    // Another text in its place has to become another content: then this is where the content is, and all else is as it was.
    const probe = `${text}.`
    return contentOf(head + JSON.stringify(probe) + tail) === probe ? new ContentPattern(head, tail) : null
  }

  /** The content of an event of this pattern, null of any other: what stands between its two parts has to be one JSON string. */
  read(data: string): string | null {
    const start = this.#head.length
    const end = data.length - this.#tail.length
    // `startsWith` looks at one character after the other: docs/decisions/2026-11-22-what-is-expensive-in-v8.md.
    if (end <= start || data.slice(0, start) !== this.#head || data.slice(end) !== this.#tail) return null
    // It would have to be parsed otherwise, of which V8 makes a key up to ten characters: one in its table of strings, old from the start.
    if (isPlainString(data, start, end)) return data.slice(start + 1, end - 1)
    if (data.charCodeAt(start) !== QUOTE) return null
    try {
      return JSON.parse(data.slice(start, end))
    } catch {
      return null
    }
  }
}

const QUOTE = 34
const BACKSLASH = 92
const SPACE = 32

/** Whether what is in its quotes is the text itself, without escapes. */
function isPlainString(data: string, start: number, end: number): boolean {
  if (end - start < 2 || data.charCodeAt(start) !== QUOTE || data.charCodeAt(end - 1) !== QUOTE) return false
  for (let i = start + 1; i < end - 1; i++) {
    const unit = data.charCodeAt(i)
    if (unit === QUOTE || unit === BACKSLASH || unit < SPACE) return false
  }
  return true
}

function contentOf(data: string): unknown {
  try {
    const { choices } = JSON.parse(data)
    // Beside another choice it may be the one that nobody asked for.
    return choices.length === 1 ? choices[0].delta.content : null
  } catch {
    return null
  }
}
