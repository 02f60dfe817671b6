import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { endOfTurn } from '../base/runtime/scheduler.ts'
import { type BoundConnection, ConnectionBound, noteConnected } from './connection-bound.ts'

export interface ConnectionWatchOptions {
  /**
   * Disconnect a client that reads none of its pending bytes for this long, counted from the first check that
   * sees it stall.
   */
  readonly slowReaderMs: number
  /**
   * Create these servers before the watch: they take over the 'connection' listeners that the server already
   * has.
   */
  readonly servers: readonly WatchedServer[]
  /** At this number of open connections, a new one replaces a silent one. */
  readonly connectionsMax: number
}

/** Handles connections before node:http does. It needs no timer: the watch calls it. */
export interface WatchedServer {
  /** Called at each check. */
  check(nowMs: number): void
  /** Called once, when the server closes. Later connections go straight to node:http. */
  close(): void
}

const CHECK_INTERVAL_MS = 1_000
/**
 * How long a client may keep its side of a connection open after the server has ended its side, counted from the
 * first check that sees it.
 */
const LINGER_MS_MAX = 2_000
/**
 * How long a closing server waits for responses to finish and for clients to read them. Generation requests have
 * already ended by then.
 */
const CLOSING_MS_MAX = 5_000
const CLOSING_CHECK_INTERVAL_MS = 200

/**
 * Watches all connections of a server: limits their number, disconnects clients that stop reading, and limits how long
 * the server takes to close.
 */
export class ConnectionWatch {
  readonly #open: ConnectionBound<WatchedConnection>
  readonly #server: Server
  readonly #options: ConnectionWatchOptions
  #timer: NodeJS.Timeout
  /** performance.now() when the server began to close. */
  #closedMs = Number.POSITIVE_INFINITY

  constructor(server: Server, options: ConnectionWatchOptions) {
    this.#server = server
    this.#options = options
    this.#open = new ConnectionBound(options.connectionsMax)
    server.on('connection', (socket: Socket) => {
      noteConnected(socket)
      const connection = new WatchedConnection(socket)
      const replaced = this.#open.add(connection)
      socket.once('close', () => this.#open.remove(connection))
      replaced?.socket.destroy()
    })
    this.#timer = this.#checkEvery(Math.min(CHECK_INTERVAL_MS, options.slowReaderMs))
  }

  get openCount(): number {
    return this.#open.size
  }

  /** Closes stalled connections, and every connection once the server has been closing for five seconds. */
  check(nowMs: number): void {
    const isPastDeadline = nowMs - this.#closedMs >= CLOSING_MS_MAX
    for (const connection of this.#open) {
      if (isPastDeadline || connection.isStalled(nowMs, this.#options.slowReaderMs)) connection.socket.destroy()
    }
    for (const server of this.#options.servers) server.check(nowMs)
    if (this.#isClosed && this.#open.size === 0) clearInterval(this.#timer)
  }

  /**
   * Closes idle connections immediately and the others after their responses. Connections that are still open
   * after five seconds are cut off: a response that never ends, or a client that stops reading or sending,
   * would otherwise keep the server from closing.
   */
  close(): void {
    this.#closedMs = performance.now()
    clearInterval(this.#timer)
    this.#timer = this.#checkEvery(CLOSING_CHECK_INTERVAL_MS)
    for (const server of this.#options.servers) server.close()
  }

  /**
   * Checks at the end of an event-loop turn: after the process was suspended, it must first read what clients
   * have sent.
   */
  #checkEvery(intervalMs: number): NodeJS.Timeout {
    const checkAll = () => {
      this.check(performance.now())
      // node:http closes idle connections when the server closes, and others when a response ends, but not when a
      // request ends after its response.
      if (this.#isClosed) this.#server.closeIdleConnections()
    }
    return setInterval(() => endOfTurn(checkAll), intervalMs).unref()
  }

  get #isClosed(): boolean {
    return this.#closedMs < Number.POSITIVE_INFINITY
  }
}

class WatchedConnection implements BoundConnection<WatchedConnection> {
  older: WatchedConnection | undefined = undefined
  newer: WatchedConnection | undefined = undefined
  isListed = false
  isKnown = false
  readonly socket: Socket
  /** The pending action that the last check found, and when a check first found it. */
  #pending: Pending = null
  #pendingSinceMs = 0

  constructor(socket: Socket) {
    this.socket = socket
  }

  /** Whether the client has read none of its pending bytes for too long, or has not ended its side in time. */
  isStalled(nowMs: number, slowReaderMs: number): boolean {
    const pending = this.#clientPending()
    if (pending === null || pending !== this.#pending) {
      this.#pending = pending
      this.#pendingSinceMs = nowMs
    }
    return nowMs - this.#pendingSinceMs >= (pending === 'end' ? LINGER_MS_MAX : slowReaderMs)
  }

  #clientPending(): Pending {
    const { socket } = this
    if (socket.writableFinished) return 'end'
    return socket.writableLength > 0 ? flushedBytes(socket) : null
  }
}

/**
 * The action of the client that the server is waiting for: to end its side, or to read more than this many
 * bytes. Null if none.
 */
type Pending = 'end' | number | null

/**
 * Returns how many of a socket's bytes the kernel has accepted; null once the socket is closed.
 *
 * This is the only place that reads private fields of Node: the counters of the socket's handle. Node's socket
 * timeouts use them too, but they count a client that sends as one that reads. The public properties count a
 * write as a whole, and an answer is one write. They are the fallback: without the counters, a client that
 * needs longer than `slowReaderMs` for one write is treated as stalled.
 */
function flushedBytes(socket: Socket): number | null {
  const { _handle: handle } = socket as Socket & { readonly _handle?: WriteCounters | null }
  if (!handle) return null
  const { bytesWritten, writeQueueSize } = handle
  if (bytesWritten !== undefined && writeQueueSize !== undefined) return bytesWritten - writeQueueSize
  return socket.bytesWritten - socket.writableLength
}

interface WriteCounters {
  readonly bytesWritten?: number
  readonly writeQueueSize?: number
}
