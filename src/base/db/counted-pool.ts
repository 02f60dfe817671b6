import pg from 'pg'

/** What a pool does now, and what failed since it was made. */
export interface PoolUse {
  /** Connections that run a statement or a transaction. */
  readonly inUse: number
  readonly idle: number
  /** Statements and transactions that wait for a connection. */
  readonly waiting: number
  /** Statements outside of transactions, and attempts to connect, that failed; and broken connections. */
  readonly errors: number
}

/** A pool of node-postgres that counts what fails. */
export class CountedPool extends pg.Pool {
  #errors = 0

  constructor(options: pg.PoolConfig) {
    super(options)
    this.on('error', () => this.#errors++)
    // node-postgres releases a connection with the error of its statement.
    this.on('release', error => {
      if (error) this.#errors++
    })
  }

  get use(): PoolUse {
    const { totalCount, idleCount, waitingCount } = this
    return { inUse: totalCount - idleCount, idle: idleCount, waiting: waitingCount, errors: this.#errors }
  }

  override connect(): Promise<pg.PoolClient>
  override connect(callback: ConnectCallback): void
  override connect(callback?: ConnectCallback): Promise<pg.PoolClient> | undefined {
    if (callback === undefined)
      return super.connect().catch(error => {
        this.#errors++
        throw error
      })
    super.connect((error, client, release) => {
      if (error) this.#errors++
      callback(error, client, release)
    })
    return undefined
  }
}

export type ConnectCallback = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  release: (reason?: unknown) => void,
) => void
