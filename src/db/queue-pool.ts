import pg from 'pg'

/**
 * The pool for graphile-worker, which has views of its own on connections that fail:
 * - It tries again by itself, up to a hundred times and minutes apart in the end, where the error's code says that PostgreSQL starts up or that there is
 *   no way to its host. Its shutdown waits for that, and so does the work when PostgreSQL is back. Here the errors have no code: it looks again at its
 *   next poll.
 * - It releases the connection on which it listens twice where it stops before PostgreSQL has said that it listens, which would end the process.
 * - It releases a connection that was given up in the middle of a statement as if all were well, though it may lead nowhere. Here that one is closed.
 */
export class QueuePool extends pg.Pool {
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
      // Whoever waited too long for a free connection has no `release`, and it is called all the same.
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

type ConnectCallback = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  release: (reason?: unknown) => void,
) => void

/** No public property tells. After a statement that failed a sound connection may look the same: 11 of 6,000 were closed for nothing. */
function isBusy(client: pg.PoolClient): boolean {
  return (client as pg.PoolClient & { readonly readyForQuery?: boolean }).readyForQuery === false
}

const withoutCode = (error: Error) => new Error(error.message, { cause: error })
