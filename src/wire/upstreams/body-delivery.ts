import type { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { type ByteAccount, ByteQueue } from '../../base/runtime/counted-memory.ts'

/**
 * The maximum number of bytes in one piece. The sink may request a pause before the rest: a read of 64 KiB can hold
 * events that take 20 ms.
 */
const PIECE_BYTES_MAX = 8 * 1024

/**
 * Receives the body as it arrives. Must not keep `piece`: the next read overwrites it. A returned promise
 * pauses the delivery until it resolves.
 */
export type BodySink = (piece: Buffer) => void | Promise<void>

/**
 * Passes the bytes of one response body to one sink, in order and in the call that reads them. Queues what
 * arrives before the sink is attached or while it is busy.
 */
export class BodyDelivery {
  readonly #queue: ByteQueue
  readonly #onCaughtUp: () => void
  #sink: BodySink | null = null
  #isSinkBusy = false
  #done: PromiseWithResolvers<void> | null = null
  #hasEnded = false
  #failure: UpstreamFailure | null = null

  /**
   * @param onCaughtUp called when the sink has taken every queued byte and more may come
   * @param account pays for the memory of the queue
   */
  constructor(onCaughtUp: () => void, account: ByteAccount) {
    this.#onCaughtUp = onCaughtUp
    this.#queue = new ByteQueue(account)
  }

  get queuedBytes(): number {
    return this.#queue.length
  }

  /** The queued bytes as UTF-8. */
  get queuedText(): string {
    return this.#queue.toString()
  }

  /**
   * Attaches the sink. The promise settles with `end`, `stop`, `fail` or `abandon`, or rejects with the error
   * that the sink throws. Call it once.
   */
  deliverTo(sink: BodySink): Promise<void> {
    this.#sink = sink
    const done = Promise.withResolvers<void>()
    this.#done = done
    this.#deliverQueued()
    return done.promise
  }

  /** False if the account has no memory left for a queue. */
  add(piece: Buffer): boolean {
    if (this.#sink === null || this.#isSinkBusy) return this.#queue.add(piece)
    if (piece.length <= PIECE_BYTES_MAX) {
      this.#deliver(piece)
      return true
    }
    let at = 0
    while (at < piece.length && this.#sink !== null && !this.#isSinkBusy) {
      this.#deliver(piece.subarray(at, at + PIECE_BYTES_MAX))
      at += PIECE_BYTES_MAX
    }
    return at >= piece.length || this.#sink === null || this.#queue.add(piece.subarray(at))
  }

  /** Called when the body is complete. Resolves the promise once the queued bytes are delivered. */
  end(): void {
    this.#hasEnded = true
    if (this.#isCaughtUp) this.#done?.resolve()
  }

  /** Called when no more bytes will arrive. Rejects the promise once the queued bytes are delivered. */
  fail(failure: UpstreamFailure): void {
    this.#failure = failure
    if (this.#isCaughtUp) this.#done?.reject(failure)
  }

  /** Stops the delivery because the sink wants no more bytes. Resolves the promise now. */
  stop(): void {
    this.#sink = null
    this.#done?.resolve()
  }

  /** Rejects the promise now. The queued bytes are never delivered. */
  abandon(error: unknown): void {
    this.#sink = null
    this.#isSinkBusy = false
    this.#done?.reject(error)
  }

  clear(): void {
    this.#queue.clear()
  }

  get #isCaughtUp(): boolean {
    return this.#queue.length === 0 && !this.#isSinkBusy
  }

  #deliverQueued(): void {
    while (this.#queue.length > 0 && this.#sink !== null && !this.#isSinkBusy) {
      this.#deliver(this.#queue.take(PIECE_BYTES_MAX))
    }
    if (this.#sink === null || this.#isSinkBusy) return
    if (this.#failure !== null) this.#done?.reject(this.#failure)
    else if (this.#hasEnded) this.#done?.resolve()
    else this.#onCaughtUp()
  }

  #deliver(piece: Buffer): void {
    try {
      const pause = this.#sink!(piece)
      if (pause === undefined) return
      this.#isSinkBusy = true
      pause.then(
        () => {
          this.#isSinkBusy = false
          this.#deliverQueued()
        },
        error => this.abandon(error),
      )
    } catch (error) {
      this.abandon(error)
    }
  }
}

/** Whether a piece is white space, which some servers send while they generate. */
export function isBlank(piece: Buffer): boolean {
  let at = 0
  while (at < piece.length && piece[at]! <= 0x20) at++
  return at === piece.length
}
