import type { EventEmitter } from 'node:events'
import pg from 'pg'

/**
 * A connection for pools that knows whether it leads to a standby: PostgreSQL says so before the first statement, and again when that changes. While a failover
 * is under way a name may still lead to one. It would answer every question, with what was true when it was cut off, for as long as the connection lives: keys
 * that were revoked since, balances that were spent. Writing fails there, and gives up the connection; reading never would.
 */
export class PrimaryClient extends pg.Client {
  #isStandby = false

  constructor(config?: pg.ClientConfig) {
    super(config)
    // Not among its types; an event of pg for each message of PostgreSQL, under the name that the protocol gives it.
    const { connection } = this as unknown as { connection: EventEmitter }
    connection.on('parameterStatus', ({ parameterName, parameterValue }: Record<string, string>) => {
      if (parameterName === 'in_hot_standby') this.#isStandby = parameterValue === 'on'
    })
  }

  /** For the `onConnect` of a pool: whoever waits for a connection is told, and the next one asks again. */
  static requirePrimary(client: unknown): void {
    if (!(client instanceof PrimaryClient && client.#isStandby)) return
    throw new Error('This PostgreSQL is a standby, which can only be read.')
  }
}
