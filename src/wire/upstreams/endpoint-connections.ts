import { connect as connectPlain, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Endpoint } from '../../base/domain/offer.ts'
import { RatePool } from '../../base/runtime/rate-pool.ts'
import { afterNextPoll } from '../../base/runtime/scheduler.ts'
import type { ByteChannel } from './byte-channel.ts'
import { Connection, type ConnectionKeeper, type Exchange, type IdleConnections } from './connection.ts'

/** The idle time before TCP probes the other side: a load balancer may have dropped the connection silently. */
const KEEPALIVE_PROBE_MS = 60_000
/**
 * How long each address of a host name is tried before the next one. Node's default of half a second (issue
 * 54359) is too short for a distant server, and for any server when the first packet is lost: TCP resends that
 * packet after a second, and Node gives up after the last address.
 */
const ADDRESS_ATTEMPT_MS = 1_500
/** How long no connection is reused after the server sent bytes that no request asked for. */
const NO_REUSE_MS = 5 * 60_000
/** A TLS session shortens the next handshake. It is kept this long after the last connection was closed. */
const FORGET_AFTER_MS = 10 * 60_000

/** In the units of `ParsingRate`, which take about a microsecond each. */
export const PARSING_UNITS_PER_S = 262_144
export const PARSING_UNITS_MAX = 8_192

/**
 * All connections to one endpoint. A connection to a hoster is used for one customer only. Local and cloud servers
 * belong to the operator or were chosen by the operator, and all customers share their connections.
 */
export class EndpointConnections implements PoolEndpoint {
  readonly open = new Set<Connection>()
  /** What its streams may parse together, beyond the share of each: a quarter of a core. */
  readonly parsingPool = new RatePool(PARSING_UNITS_PER_S, PARSING_UNITS_MAX)
  /** True after `forgetIfUnused`: further requests need other EndpointConnections. */
  isForgotten = false
  readonly #url: URL
  readonly #isPerCustomer: boolean
  readonly #idle: IdleConnections
  readonly #lookup: LookupFunction | undefined
  readonly #onUnsolicited: () => void
  readonly #pools = new Map<string, ConnectionPool>()
  #tlsSession: Buffer | undefined
  /** performance.now() at the last change of `open` to empty. */
  #emptySinceMs = performance.now()
  #noReuseUntilMs = Number.NEGATIVE_INFINITY

  /**
   * @param lookup resolves the host name; the default is the system's resolver
   * @param onUnsolicited called when the reuse of connections stops because of unsolicited bytes
   */
  constructor(
    { baseUrl, kind }: Endpoint,
    idle: IdleConnections,
    lookup: LookupFunction | undefined,
    onUnsolicited: () => void,
  ) {
    this.#url = new URL(baseUrl)
    this.#isPerCustomer = kind === 'hoster'
    this.#idle = idle
    this.#lookup = lookup
    this.#onUnsolicited = onUnsolicited
  }

  get allowsReuse(): boolean {
    return performance.now() >= this.#noReuseUntilMs
  }

  /** The connections that may carry a request of this customer. */
  pool(customerId: string): ConnectionPool {
    const key = this.#isPerCustomer ? customerId : ''
    let pool = this.#pools.get(key)
    if (pool === undefined) {
      pool = new ConnectionPool(this, this.#idle, () => this.#onPoolEmpty(key))
      this.#pools.set(key, pool)
    }
    return pool
  }

  /** Closes the idle connections and reuses none for five minutes. */
  stopReuse(): void {
    const wasAllowed = this.allowsReuse
    this.#noReuseUntilMs = performance.now() + NO_REUSE_MS
    if (!wasAllowed) return
    for (const connection of this.open) if (connection.isListed) connection.destroy()
    this.#onUnsolicited()
  }

  /** Returns true if no connection has been open for a while. */
  forgetIfUnused(): boolean {
    this.isForgotten = this.open.size === 0 && performance.now() >= this.#emptySinceMs + FORGET_AFTER_MS
    return this.isForgotten
  }

  /** Closes all connections. Their exchanges fail with `reason`. */
  close(reason: Error): void {
    for (const connection of this.open) connection.fail(reason)
  }

  connect(onread: OnReadOpts, onConnected: () => void): Socket {
    const { protocol, hostname, port } = this.#url
    const isSecure = protocol === 'https:'
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    const options = {
      host,
      port: Number(port || (isSecure ? 443 : 80)),
      onread,
      autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_MS,
      ...(this.#lookup && { lookup: this.#lookup }),
    }
    const socket = isSecure
      ? connectTls({
          ...options,
          ...(isIP(host) === 0 && { servername: host }),
          // No HTTP/2: one lost connection would break a hundred streams.
          ALPNProtocols: ['http/1.1'],
          session: this.#tlsSession,
        }).on('session', session => {
          this.#tlsSession = session
        })
      : connectPlain(options)
    return socket
      .setNoDelay(true)
      .setKeepAlive(true, KEEPALIVE_PROBE_MS)
      .once(isSecure ? 'secureConnect' : 'connect', onConnected)
  }

  #onPoolEmpty(key: string): void {
    this.#pools.delete(key)
    if (this.open.size === 0) this.#emptySinceMs = performance.now()
  }
}

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
