import type { EventEmitter } from 'node:events'
import pg from 'pg'
import { noteBrokenConnection } from './database-fault.ts'

export const STANDBY = 'This PostgreSQL is a standby, which is read-only.'

/**
 * A pooled connection that knows whether it leads to a standby. PostgreSQL reports this before the first
 * statement and whenever it changes.
 *
 * During a failover the host name may still lead to a standby. Its data can be old: it may not know that a key
 * was revoked or a balance spent. Writes to it fail and close the connection, but reads would return old data for
 * as long as the connection lives.
 */
export class PrimaryClient extends pg.Client {
  #isStandby = false

  constructor(config?: pg.ClientConfig) {
    super(config)
    // Not in pg's types: the connection emits an event for each message of PostgreSQL, named as in the protocol.
    const { connection } = this as unknown as { connection: EventEmitter }
    connection.on('error', noteBrokenConnection)
    connection.on('parameterStatus', ({ parameterName, parameterValue }: Record<string, string>) => {
      if (parameterName === 'in_hot_standby') this.#isStandby = parameterValue === 'on'
    })
  }

  /**
   * For the `onConnect` of a pool: throws for a standby, so the waiting caller gets the error and the next
   * caller opens a new connection.
   */
  static requirePrimary(client: unknown): void {
    if (!(client instanceof PrimaryClient && client.#isStandby)) return
    throw new Error(STANDBY)
  }
}
