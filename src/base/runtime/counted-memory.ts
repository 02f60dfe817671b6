/** Counts the memory of one request, or of all of them. Calls allocate nothing. */
export interface ByteAccount {
  /** Takes `bytes` before they are allocated. False: they must not be allocated. */
  take(bytes: number): boolean
  /** Gives back `bytes` that are free again. */
  give(bytes: number): void
  /** Whether the last `take` failed because of the share of one customer, although the memory is there. */
  readonly isOverShare?: boolean
}

/** For memory that has another limit. */
export const uncounted: ByteAccount = { take: () => true, give() {} }

/** The share of the budget that new requests may fill. The rest is kept for requests that are already running. */
const SHARE_FOR_NEW = 0.75

/**
 * The memory that all request bodies and answers of this node may occupy together. Without it, many large
 * answers at once would end the process, and every request with it.
 */
export class ByteBudget implements ByteAccount {
  readonly maxBytes: number
  #usedBytes = 0

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  /** False when a new request must be refused. */
  get hasRoomForNew(): boolean {
    return this.#usedBytes < this.maxBytes * SHARE_FOR_NEW
  }

  take(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.maxBytes) return false
    this.#usedBytes += bytes
    return true
  }

  get freeBytes(): number {
    return this.maxBytes - this.#usedBytes
  }

  /** What requests that are not running yet may take; below 0 when running ones have taken more than their share. */
  get freeForNewBytes(): number {
    return this.maxBytes * SHARE_FOR_NEW - this.#usedBytes
  }

  give(bytes: number): void {
    this.#usedBytes -= bytes
  }
}

const nothing = Buffer.alloc(0)

/**
 * Bytes that arrive in pieces and are read as one. They are copied into memory that grows by doubling: kept
 * as separate buffers, chunks of one byte took 140 bytes of heap each, far too much for an answer of 16 MiB.
 */
export class ByteQueue {
  #memory = nothing
  #start = 0
  #end = 0
  readonly #account: ByteAccount
  readonly #expectedBytes: number

  /**
   * @param account pays for the memory
   * @param expectedBytes the memory doubles up to this size at most, unless more bytes arrive
   */
  constructor(account: ByteAccount = uncounted, expectedBytes = Number.POSITIVE_INFINITY) {
    this.#account = account
    this.#expectedBytes = expectedBytes
  }

  get length(): number {
    return this.#end - this.#start
  }

  /** False if the account has no memory left: the piece is not kept. */
  add(piece: Buffer): boolean {
    if (this.#end + piece.length > this.#memory.length && !this.#grow(piece.length)) return false
    piece.copy(this.#memory, this.#end)
    this.#end += piece.length
    return true
  }

  /** Removes and returns the first bytes, at most `bytesMax`. */
  take(bytesMax: number): Buffer {
    const removed = this.#memory.subarray(this.#start, Math.min(this.#end, this.#start + bytesMax))
    this.#start += removed.length
    if (this.length === 0) this.clear()
    return removed
  }

  clear(): void {
    this.#account.give(this.#memory.length)
    this.#memory = nothing
    this.#start = 0
    this.#end = 0
  }

  /** All bytes. They stay in the queue. */
  get bytes(): Buffer {
    return this.#memory.subarray(this.#start, this.#end)
  }

  /** Decodes all bytes as UTF-8. */
  toString(): string {
    return this.#memory.toString('utf8', this.#start, this.#end)
  }

  /** The first piece gets exactly the memory it needs: most answers arrive in one piece. */
  #grow(bytes: number): boolean {
    const { length } = this
    const grownLength = length === 0 ? bytes : Math.max(length + bytes, Math.min(length * 2, this.#expectedBytes))
    const moreBytes = grownLength - this.#memory.length
    if (moreBytes > 0 && !this.#account.take(moreBytes)) return false
    if (moreBytes < 0) this.#account.give(-moreBytes)
    const grown = Buffer.allocUnsafe(grownLength)
    this.#memory.copy(grown, 0, this.#start, this.#end)
    this.#memory = grown
    this.#start = 0
    this.#end = length
    return true
  }
}

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
