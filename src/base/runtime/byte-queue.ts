import { type ByteAccount, uncounted } from './byte-budget.ts'

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
