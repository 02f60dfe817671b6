import { connect as connectPlain, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { endOfTurn } from '../runtime/end-of-turn.ts'
import { Connection, type ConnectionKeeper, type Exchange } from './connection.ts'
import type { Deadlines } from './deadlines.ts'

/** The idle time before TCP probes the other side: a load balancer may have dropped the connection silently. */
const KEEPALIVE_PROBE_MS = 60_000
/**
 * How long each address of a host name is tried before the next one. Node's default of half a second (issue
 * 54359) is too short for a distant server, and for any server when the first packet is lost: TCP resends that
 * packet after a second, and Node gives up after the last address.
 */
const ADDRESS_ATTEMPT_MS = 1_500

/**
 * The connections to one origin, as many as there are concurrent requests. Reuses the connection that became
 * idle last, so that after a burst the others expire.
 */
export class ConnectionPool implements ConnectionKeeper {
  readonly #url: URL
  readonly #deadlines: Deadlines
  readonly #lookup: LookupFunction | undefined
  readonly #open = new Set<Connection>()
  /** Most recently used last. */
  readonly #idle: Connection[] = []
  #tlsSession: Buffer | undefined

  /**
   * `deadlines` closes connections that were idle too long. `lookup` resolves the host name; the default is
   * the system's resolver.
   */
  constructor(origin: string, deadlines: Deadlines, lookup?: LookupFunction) {
    this.#url = new URL(origin)
    this.#deadlines = deadlines
    this.#lookup = lookup
  }

  /** Sends a request; `forceNew` opens a new connection for it. Reports every outcome to the exchange. */
  send(request: string, exchange: Exchange, forceNew: boolean): void {
    const idle = forceNew ? undefined : this.#takeIdle()
    if (idle !== undefined) {
      idle.assign(exchange)
      idle.send(request)
      return
    }
    const connection: Connection = new Connection(onread => this.#connect(onread, () => connection.send(request)), this)
    this.#open.add(connection)
    connection.assign(exchange)
  }

  /** Closes all connections. Their exchanges fail with `reason`. */
  destroy(reason: Error): void {
    for (const connection of this.#open) connection.fail(reason)
  }

  onIdle(connection: Connection): void {
    // Surplus bytes after the response are read before the turn ends, so they cannot become the answer to the
    // next request.
    endOfTurn(() => {
      if (connection.isUsable) {
        this.#idle.push(connection)
        this.#deadlines.add(connection)
      } else connection.destroy()
    })
  }

  onClosed(connection: Connection): void {
    this.#open.delete(connection)
    this.#deadlines.remove(connection)
    const at = this.#idle.indexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
  }

  #takeIdle(): Connection | undefined {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      this.#deadlines.remove(idle)
      if (idle.isUsable) return idle
      idle.destroy()
    }
    return undefined
  }

  #connect(onread: OnReadOpts, onConnected: () => void): Socket {
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
}
