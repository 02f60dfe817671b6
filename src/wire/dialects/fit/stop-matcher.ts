/** A sequence, and for each of its beginnings the length of the longest shorter one that it ends with. */
interface Pattern {
  readonly text: string
  readonly fallbacks: Uint32Array
}

/**
 * Finds the first of some sequences in a text that arrives in pieces, and holds back what may be the beginning of one.
 * The time for a character depends on the number of sequences, never on their length: they come from clients.
 */
export class StopMatcher {
  /** `length`: how much of the sequence the text so far ends with. */
  readonly #matched: readonly { readonly pattern: Pattern; length: number }[]
  #held = ''

  /** @param patterns as `patternsOf` returns them */
  constructor(patterns: readonly Pattern[]) {
    this.#matched = patterns.map(pattern => ({ pattern, length: 0 }))
  }

  /** Returns the text that belongs to the answer for certain, and the sequence that ends it; null: it goes on. */
  push(piece: string): { readonly text: string; readonly stop: string | null } {
    const all = this.#held + piece
    for (let at = 0; at < piece.length; at++) {
      const stop = this.#step(piece.charCodeAt(at))
      if (stop === null) continue
      const end = this.#held.length + at + 1
      this.#held = ''
      return { text: all.slice(0, end - stop.length), stop }
    }
    const begun = this.#matched.reduce((longest, { length }) => Math.max(longest, length), 0)
    this.#held = all.slice(all.length - begun)
    return { text: all.slice(0, all.length - begun), stop: null }
  }

  /** Returns what was held back, because the text ends here. */
  flush(): string {
    const held = this.#held
    this.#held = ''
    for (const each of this.#matched) each.length = 0
    return held
  }

  /** Returns the longest sequence that this character completes. */
  #step(character: number): string | null {
    let found: string | null = null
    for (const each of this.#matched) {
      const { text, fallbacks } = each.pattern
      let { length } = each
      while (length > 0 && text.charCodeAt(length) !== character) length = fallbacks[length - 1] ?? 0
      if (text.charCodeAt(length) === character) length++
      each.length = length
      if (length === text.length && length > (found?.length ?? 0)) found = text
    }
    return found
  }
}

/** Prepares sequences for a matcher: Knuth, Morris and Pratt. None may be empty. */
export function patternsOf(stops: readonly string[]): readonly Pattern[] {
  return stops.map(text => {
    const fallbacks = new Uint32Array(text.length)
    let length = 0
    for (let at = 1; at < text.length; at++) {
      while (length > 0 && text[at] !== text[length]) length = fallbacks[length - 1] ?? 0
      if (text[at] === text[length]) length++
      fallbacks[at] = length
    }
    return { text, fallbacks }
  })
}
