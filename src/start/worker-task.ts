import type { Config } from '../config/config.ts'
import type { Connection } from '../db/embedded.ts'
import type { Offer } from '../domain/offer.ts'

/**
 * All that a worker is told. It reads no file and no environment, so that one that is started again next week is like the others,
 * whatever was edited meanwhile.
 */
export interface WorkerTask {
  readonly number: number
  readonly config: Config
  readonly connection: Connection
  readonly masterKey: Uint8Array
  readonly offers: readonly Offer[]
  /** The leases of former nodes can be given back at once: no other worker runs yet, and the primary has the server lock. */
  readonly isOnlyNode: boolean
}
