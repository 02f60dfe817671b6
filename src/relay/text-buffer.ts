/**
 * A text that grows in small pieces, stored outside the JavaScript heap. A string would be a rope of two
 * objects per piece, and a thousand streams would give the garbage collector sixty thousand of them to visit.
 */
export class TextBuffer {
  #bytes = nothing
  #length = 0

  /** In UTF-16 units, like the length of a string. */
  get length(): number {
    return this.#length
  }

  append(text: string): void {
    const end = (this.#length + text.length) * 2
    if (end > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(Math.ceil(end * 1.5), BYTES_MIN))
      this.#bytes.copy(larger, 0, 0, this.#length * 2)
      this.#bytes = larger
    }
    // UTF-16, because a piece may end in the middle of a surrogate pair.
    this.#bytes.write(text, this.#length * 2, 'utf16le')
    this.#length += text.length
  }

  slice(start: number, end: number): string {
    return this.#bytes.toString('utf16le', start * 2, Math.min(end, this.#length) * 2)
  }

  toString(): string {
    return this.slice(0, this.#length)
  }
}

const BYTES_MIN = 256
const nothing = Buffer.alloc(0)
