import type { ByteAccount } from '../../base/runtime/byte-budget.ts'

/**
 * A text that grows in small pieces, stored outside the JavaScript heap. A string would be a rope of two
 * objects per piece, and a thousand streams would give the garbage collector sixty thousand of them to visit.
 */
export class TextBuffer {
  #bytes = nothing
  #length = 0
  readonly #account: ByteAccount

  /** @param account pays for the memory */
  constructor(account: ByteAccount) {
    this.#account = account
  }

  /** In UTF-16 units, like the length of a string. */
  get length(): number {
    return this.#length
  }

  /** False if the account has no memory left: the text is not kept. */
  append(text: string): boolean {
    const end = (this.#length + text.length) * 2
    if (end > this.#bytes.length && !this.#grow(end)) return false
    // UTF-16, because a piece may end in the middle of a surrogate pair.
    this.#bytes.write(text, this.#length * 2, 'utf16le')
    this.#length += text.length
    return true
  }

  #grow(bytesMin: number): boolean {
    const bytes = Math.max(Math.ceil(bytesMin * 1.5), BYTES_MIN)
    if (!this.#account.take(bytes - this.#bytes.length)) return false
    const larger = Buffer.allocUnsafeSlow(bytes)
    this.#bytes.copy(larger, 0, 0, this.#length * 2)
    this.#bytes = larger
    return true
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
