import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'

/** The time limits of one exchange, in ms. */
export interface ExchangeLimits {
  readonly connectMs: number
  /**
   * From sending the request to the first content of a stream, or with `thinkingMs` to its first sign of life; to the
   * first byte of another answer.
   */
  readonly firstByteMs: number
  /**
   * The longest pause between two signs of life of a stream before its first text. Absent: signs of life do not count.
   */
  readonly thinkingMs?: number
  /** The longest pause between two pieces of the answer, after that. */
  readonly idleMs: number
  readonly totalMs: number
}

/** The properties of a request that decide how its response is read. */
export interface ExchangeRequest {
  readonly stream: boolean
  readonly limits: ExchangeLimits
  /** The most bytes of a whole answer. */
  readonly bytesMax: number
  readonly signal: CancelSignal
  /** Pays for the memory of the answer. */
  readonly memory: ByteAccount
}
