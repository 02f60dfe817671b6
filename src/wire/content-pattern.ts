/**
 * What the events of a stream have in common: in most of them nothing but the text of `delta.content` differs from the one before.
 * Such an event is read by taking the text out from between the two parts that stay the same: parsing it whole, building a chunk and
 * writing that as JSON again made the way from bytes to bytes half as long again (1.9 against 1.2 us in a tight loop, and more garbage).
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
    if (!data.startsWith(this.#head) || !data.endsWith(this.#tail)) return null
    const between = data.slice(this.#head.length, data.length - this.#tail.length)
    if (!between.startsWith('"')) return null
    try {
      return JSON.parse(between)
    } catch {
      return null
    }
  }
}

function contentOf(data: string): unknown {
  try {
    return JSON.parse(data).choices[0].delta.content
  } catch {
    return null
  }
}
