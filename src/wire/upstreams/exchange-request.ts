import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'

/** The time limits of one exchange, in ms. */
export interface ExchangeLimits {
  readonly connectMs: number
  /**
   * From sending the request to where the answer begins: the first byte of a whole one, the first content of a stream.
   * With `thinkingMs`, a stream begins with its first sign of life.
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
