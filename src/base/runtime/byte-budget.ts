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
