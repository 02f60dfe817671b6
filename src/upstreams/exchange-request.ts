import type { ByteAccount } from '../runtime/byte-budget.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'

/** The properties of a request that decide how its response is read. */
export interface ExchangeRequest {
  readonly stream: boolean
  /** Limits the attempt in addition to the timeouts of the endpoint, in ms from now. */
  readonly remainingMs: number
  /** The most bytes of a whole answer. */
  readonly bytesMax: number
  readonly signal: CancelSignal
  /** Pays for the memory of the answer. */
  readonly memory: ByteAccount
}
