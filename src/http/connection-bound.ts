import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { type LinkedItem, LinkedSet } from '../runtime/linked-set.ts'

const requestsRunning = Symbol('requests running')

/** A connection, with the number of its requests that are being served; undefined before the first one. */
type ServedSocket = Socket & { [requestsRunning]?: number }

/** Called at the start of each request. A symbol on the socket costs the fast path less than a map. */
export function noteRequest(socket: ServedSocket): void {
  socket[requestsRunning] = (socket[requestsRunning] ?? 0) + 1
}

/** Called when the request has been answered, or no longer can be. */
export function noteAnswered(socket: ServedSocket): void {
  socket[requestsRunning] = (socket[requestsRunning] ?? 1) - 1
}

/** Notes the requests of node:http. */
export function noteRequests(listener: RequestListener): RequestListener {
  return (request, response) => {
    const { socket } = request
    noteRequest(socket)
    response.once('close', () => noteAnswered(socket))
    listener(request, response)
  }
}

const hasServed = (socket: ServedSocket) => socket[requestsRunning] !== undefined
const isSilent = (socket: ServedSocket) => !socket[requestsRunning]

export interface BoundConnection<Connection> extends LinkedItem<Connection> {
  readonly socket: Socket
  /** Whether it is listed as one that has sent a request. Only the bound writes it. */
  isKnown: boolean
}

/** The number of connections that are examined for a new one. A limit keeps a flood of new ones cheap. */
const EXAMINED_MAX = 64

/**
 * Limits the open connections. At the limit, a new connection replaces a silent one, which serves no request: first
 * the oldest that has never sent one, then one of the oldest kept-alive ones. Without a silent one, the new connection
 * is closed.
 */
export class ConnectionBound<Connection extends BoundConnection<Connection>> {
  readonly #max: number
  /** Connections that had sent no request when they were last examined, oldest first. */
  readonly #strangers = new LinkedSet<Connection>()
  /** The others. Those that serve a request when they are examined are moved to the end. */
  readonly #known = new LinkedSet<Connection>()

  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#strangers.size + this.#known.size
  }

  *[Symbol.iterator](): Generator<Connection, void> {
    yield* this.#strangers
    yield* this.#known
  }

  /** Adds a connection. Returns the one that must be closed for it; undefined below the limit. */
  add(connection: Connection): Connection | undefined {
    const replaced = this.size < this.#max ? undefined : (this.#silentStranger() ?? this.#silentKnown() ?? connection)
    this.#strangers.add(connection)
    return replaced
  }

  remove(connection: Connection): void {
    const connections = connection.isKnown ? this.#known : this.#strangers
    connections.remove(connection)
  }

  #silentStranger(): Connection | undefined {
    for (let examined = 0; examined < EXAMINED_MAX; examined++) {
      const oldest = this.#strangers.oldest
      if (oldest === undefined || !hasServed(oldest.socket)) return oldest
      this.#strangers.remove(oldest)
      oldest.isKnown = true
      this.#known.add(oldest)
    }
    return undefined
  }

  #silentKnown(): Connection | undefined {
    for (let examined = Math.min(EXAMINED_MAX, this.#known.size); examined > 0; examined--) {
      const oldest = this.#known.oldest!
      if (isSilent(oldest.socket)) return oldest
      this.#known.remove(oldest)
      this.#known.add(oldest)
    }
    return undefined
  }
}
