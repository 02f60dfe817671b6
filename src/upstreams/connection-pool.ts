import { connect as connectPlain, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { endOfTurn } from '../runtime/end-of-turn.ts'
import { Connection, type ConnectionKeeper, type Exchange } from './connection.ts'
import type { Deadlines } from './deadlines.ts'

/** So long after the last word, TCP asks whether the other side is still there: a load balancer may have forgotten it. */
const PROBED_AFTER_MS = 60_000
/**
 * So long an address of several is tried before the next one. Node gives up on it after half a second (issue 54359), and after the last one on all:
 * a server a long way off, or one whose first packet was lost, which TCP sends again after a second, was not reached at all.
 */
const ADDRESS_TRIED_MS = 1_500

/**
 * Connections to one origin, as many as there are requests at a time. The one that rested last serves next, so that after a rush the others
 * reach their end.
 */
export class ConnectionPool implements ConnectionKeeper {
  readonly #url: URL
  readonly #deadlines: Deadlines
  readonly #lookup: LookupFunction | undefined
  readonly #open = new Set<Connection>()
  /** Newest last. */
  readonly #idle: Connection[] = []
  #tlsSession: Buffer | undefined

  /** `deadlines` watches the idle ones. `lookup` resolves the host's name; by default the system does. */
  constructor(origin: string, deadlines: Deadlines, lookup?: LookupFunction) {
    this.#url = new URL(origin)
    this.#deadlines = deadlines
    this.#lookup = lookup
  }

  /** Sends a request. `fresh` asks for a connection that has never been used. Everything that happens is told to the exchange. */
  send(request: string, exchange: Exchange, fresh: boolean): void {
    const kept = fresh ? undefined : this.#takeIdle()
    if (kept !== undefined) {
      kept.assign(exchange)
      kept.send(request)
      return
    }
    const connection: Connection = new Connection(onread => this.#connect(onread, () => connection.send(request)), this)
    this.#open.add(connection)
    connection.assign(exchange)
  }

  /** Cuts off all connections; what they were serving hears why. */
  destroy(reason: Error): void {
    for (const connection of this.#open) connection.fail(reason)
  }

  onIdle(connection: Connection): void {
    // What came right behind the response is read before the turn is over, and then is not taken for the answer to the next request.
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
    for (let kept = this.#idle.pop(); kept !== undefined; kept = this.#idle.pop()) {
      this.#deadlines.remove(kept)
      if (kept.isUsable) return kept
      kept.destroy()
    }
    return undefined
  }

  #connect(onread: OnReadOpts, connected: () => void): Socket {
    const { protocol, hostname, port } = this.#url
    const isSecure = protocol === 'https:'
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    const options = {
      host,
      port: Number(port || (isSecure ? 443 : 80)),
      onread,
      autoSelectFamilyAttemptTimeout: ADDRESS_TRIED_MS,
      ...(this.#lookup && { lookup: this.#lookup }),
    }
    const socket = isSecure
      ? connectTls({
          ...options,
          ...(isIP(host) === 0 && { servername: host }),
          // HTTP/2 is not offered: one lost connection would then be a hundred lost streams.
          ALPNProtocols: ['http/1.1'],
          session: this.#tlsSession,
        }).on('session', session => {
          this.#tlsSession = session
        })
      : connectPlain(options)
    return socket
      .setNoDelay(true)
      .setKeepAlive(true, PROBED_AFTER_MS)
      .once(isSecure ? 'secureConnect' : 'connect', connected)
  }
}
