import type { Config } from '../config/config.ts'
import type { Connection } from '../db/embedded.ts'
import type { Offer } from '../domain/offer.ts'

/**
 * Everything a worker needs. A worker reads no file and no environment, so that one that restarts a week later
 * equals the others, even if the configuration was edited.
 */
export interface WorkerTask {
  readonly number: number
  readonly config: Config
  readonly connection: Connection
  readonly masterKey: Uint8Array
  readonly offers: readonly Offer[]
  /**
   * The leases of earlier nodes can be returned at once: no other worker runs yet, and the primary holds the
   * server lock.
   */
  readonly isOnlyNode: boolean
}
