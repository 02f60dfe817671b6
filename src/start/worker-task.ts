import type { Connection } from '../base/db/open-database.ts'
import type { Offer } from '../base/domain/offer.ts'
import type { Config } from './config/config.ts'

/**
 * Everything that a worker needs. A worker reads no file and no environment, so a worker that restarts a week
 * later behaves like the others, even if the configuration was edited. Only the offers, the settings of
 * the file that need no restart and the master keys may change while it runs.
 */
export interface WorkerTask {
  readonly number: number
  readonly config: Config
  readonly connection: Connection
  readonly desk: Connection
  /** The first one seals until the worker has read what the installation seals with. */
  readonly masterKeys: readonly Uint8Array[]
  readonly offers: readonly Offer[]
  /** What the file says, as it was last read. */
  readonly file: Pick<Config, 'written'>
  /**
   * Whether the leases of earlier nodes can be returned immediately: no other worker runs yet, and the primary
   * holds the server lock.
   */
  readonly isOnlyNode: boolean
}
