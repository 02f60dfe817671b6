import type pg from 'pg'
import { type ConnectCallback, CountedPool } from './counted-pool.ts'

/**
 * The pool for graphile-worker. It works around three habits of graphile-worker with failing connections:
 * - When the error code says that PostgreSQL is starting or its host is unreachable, graphile-worker retries
 *   up to a hundred times, at the end minutes apart. Its shutdown waits for those retries, and jobs wait for
 *   them even when PostgreSQL is back. This pool removes the codes, so graphile-worker tries again at its
 *   next poll.
 * - When it stops before LISTEN has been confirmed, it releases that connection twice, which would end the
 *   process. This pool ignores the second release.
 * - It releases a connection that was abandoned in the middle of a statement as if it were sound. This pool
 *   closes that connection.
 */
export class QueuePool extends CountedPool {
  constructor(options: pg.PoolConfig) {
    super(options)
    this.on('release', (_error, client) => {
      if (isBusy(client)) void client.end()
    })
  }

  override connect(): Promise<pg.PoolClient>
  override connect(callback: ConnectCallback): void
  override connect(callback?: ConnectCallback): Promise<pg.PoolClient> | undefined {
    if (callback === undefined) {
      return super.connect().catch(error => {
        throw withoutCode(error)
      })
    }
    super.connect((error, client, release) => {
      // After a time-out there is no client and no `release`, but graphile-worker calls the function anyway.
      let isReleased = client === undefined
      callback(error && withoutCode(error), client, reason => {
        if (isReleased) return
        isReleased = true
        release(reason)
      })
    })
    return undefined
  }
}

/**
 * Whether a statement still runs on the connection. Reads a private property of pg, since there is no public one.
 * A sound connection may look busy after a failed statement: 11 of 6,000 did.
 */
function isBusy(client: pg.PoolClient): boolean {
  return (client as pg.PoolClient & { readonly readyForQuery?: boolean }).readyForQuery === false
}

const withoutCode = (error: Error) => new Error(error.message, { cause: error })
