import type { OnReadOpts } from 'node:net'
import { afterNextPoll } from '../../base/runtime/scheduler.ts'
import type { ByteChannel } from './byte-channel.ts'
import { Connection, type ConnectionKeeper, type Exchange } from './connection.ts'
import type { IdleConnections } from './idle-connections.ts'

/** What the pools of one endpoint share. */
export interface PoolEndpoint {
  readonly open: Set<Connection>
  /** False while every request gets a new connection, which is closed after its answer. */
  readonly allowsReuse: boolean
  /** Called when the server sent bytes that no request asked for. */
  stopReuse(): void
  /** Opens a socket that reads into `onread`. */
  connect(onread: OnReadOpts, onConnected: () => void): ByteChannel
}

/**
 * The connections to one endpoint that may carry each other's requests, as many as there are concurrent requests.
 * Reuses the connection that became ready last, so that after a burst the others expire.
 */
export class ConnectionPool implements ConnectionKeeper {
  readonly #endpoint: PoolEndpoint
  readonly #idle: IdleConnections
  readonly #onEmpty: () => void
  /** The connection that became ready last is at the end. */
  readonly #ready: Connection[] = []
  #openCount = 0

  /** @param onEmpty called when the last connection is closed */
  constructor(endpoint: PoolEndpoint, idle: IdleConnections, onEmpty: () => void) {
    this.#endpoint = endpoint
    this.#idle = idle
    this.#onEmpty = onEmpty
  }

  /** Sends a request; `forceNew` opens a new connection for it. Reports every outcome to the exchange. */
  send(request: string, exchange: Exchange, forceNew: boolean): void {
    const kept = forceNew ? undefined : this.#ready.pop()
    if (kept === undefined) {
      this.#sendOnNew(request, exchange)
      return
    }
    this.#idle.remove(kept)
    kept.assign(exchange)
    exchange.onConnected()
    afterNextPoll(() => kept.send(request))
  }

  onIdle(connection: Connection): void {
    if (this.#endpoint.allowsReuse) this.#idle.add(connection)
    else connection.destroy()
  }

  onReady(connection: Connection): void {
    this.#ready.push(connection)
  }

  onUnsolicited(): void {
    this.#endpoint.stopReuse()
  }

  onClosed(connection: Connection): void {
    if (connection.isReady) this.#ready.splice(this.#ready.indexOf(connection), 1)
    this.#idle.remove(connection)
    this.#endpoint.open.delete(connection)
    this.#openCount--
    if (this.#openCount === 0) this.#onEmpty()
  }

  #sendOnNew(request: string, exchange: Exchange): void {
    const onConnected = () => {
      exchange.onConnected()
      afterNextPoll(() => connection.send(request))
    }
    const connection: Connection = new Connection(onread => this.#endpoint.connect(onread, onConnected), this)
    this.#endpoint.open.add(connection)
    this.#openCount++
    connection.assign(exchange)
  }
}
