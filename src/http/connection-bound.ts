import type { IncomingMessage, RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { type LinkedItem, LinkedSet } from '../base/runtime/collections.ts'

const requestsRunning = Symbol('requests running')
const latestRequest = Symbol('latest request')
const afterAnswers = Symbol('after answers')
const refusals = Symbol('refusals')
const lastAnswer = Symbol('last answer')
const connectedMs = Symbol('connected ms')

/** A connection, and what is known of its requests. */
type ServedSocket = Socket & {
  /** How many are being served; undefined before the first one. */
  [requestsRunning]?: number
  /** The latest one of node:http, until it is answered. */
  [latestRequest]?: IncomingMessage | undefined
  [afterAnswers]?: (() => void) | undefined
  /** Answers so far that need no key. */
  [refusals]?: number
  /** Whether an answer says that it is the last one. */
  [lastAnswer]?: true
  /** performance.now() when it was accepted. */
  [connectedMs]?: number
}

/** Called at the start of each request. A symbol on the socket costs the fast path less than a map. */
export function noteRequest(socket: ServedSocket): void {
  socket[requestsRunning] = (socket[requestsRunning] ?? 0) + 1
}

/** Called when the request has been answered, or no longer can be. */
export function noteAnswered(socket: ServedSocket): void {
  socket[requestsRunning] = (socket[requestsRunning] ?? 1) - 1
  const waiting = socket[afterAnswers]
  if (waiting === undefined || owesAnswer(socket)) return
  socket[afterAnswers] = undefined
  waiting()
}

/** Notes the requests of node:http. */
export function noteRequests(listener: RequestListener): RequestListener {
  return (request, response) => {
    const { socket }: { socket: ServedSocket } = request
    noteRequest(socket)
    socket[latestRequest] = request
    response.once('close', () => {
      if (socket[latestRequest] === request) socket[latestRequest] = undefined
      noteAnswered(socket)
    })
    listener(request, response)
  }
}

/** Whether the connection has a request that has arrived completely and has not been answered. */
export function owesAnswer(socket: ServedSocket): boolean {
  const isArriving = socket[latestRequest]?.complete === false
  return (socket[requestsRunning] ?? 0) > (isArriving ? 1 : 0)
}

/** Calls the listener once all complete requests of the connection have been answered. */
export function onceAnswered(socket: ServedSocket, listener: () => void): void {
  socket[afterAnswers] = listener
}

/**
 * A faulty request, a refused key, an unknown address or method, a body of a foreign type: a stranger gets these
 * answers too.
 */
const STATUSES_WITHOUT_KEY: ReadonlySet<number> = new Set([400, 401, 404, 405, 415])
/** Enough for a client that tries its keys in turn, and for a proxy that shares a connection. */
const REFUSALS_MAX = 5

/**
 * Whether an answer must be the last one of its connection: the fifth one that needs no key, so that a stranger pays
 * for each few requests with a new connection. While the body still arrives, closing would send a reset and the client
 * could lose the answer; then a later refusal closes.
 */
export function isLastAnswer(status: number, socket: ServedSocket, isRequestComplete: boolean): boolean {
  if (!STATUSES_WITHOUT_KEY.has(status)) return false
  const count = (socket[refusals] ?? 0) + 1
  socket[refusals] = count
  if (!isRequestComplete || count < REFUSALS_MAX) return false
  socket[lastAnswer] = true
  return true
}

/**
 * Whether the whole request has arrived. For a request without a body, node:http sets `complete` only after its
 * listener.
 */
export function hasArrived({ complete, headers }: IncomingMessage): boolean {
  return complete || (headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0)
}

/** Whether an answer has said that it is the last one. Requests behind it are not served (RFC 9112, 9.6). */
export function hasLastAnswer(socket: ServedSocket): boolean {
  return socket[lastAnswer] === true
}

/** Called when the connection has been accepted. */
export function noteConnected(socket: ServedSocket): void {
  socket[connectedMs] = performance.now()
}

/** performance.now() when the connection was accepted; Infinity if nobody noted it. */
export function connectedMsOf(socket: ServedSocket): number {
  return socket[connectedMs] ?? Number.POSITIVE_INFINITY
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
