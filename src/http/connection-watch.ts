import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { endOfTurn } from '../runtime/end-of-turn.ts'
import { type LinkedItem, LinkedSet } from '../runtime/linked-set.ts'
import { takenBytes } from './taken-bytes.ts'

export interface ConnectionWatchOptions {
  /** A client that takes none of its pending bytes for this long is disconnected. Counted from the check that first sees it stalled. */
  readonly slowReaderMs: number
  /** Doors that must have been opened before the watch is created. */
  readonly doors: readonly ConnectionDoor[]
}

/** Serves connections of a server before node:http does. It is driven by the watch and keeps no timer. */
export interface ConnectionDoor {
  /** Called at each check. */
  check(nowMs: number): void
  /** Called once, when the server closes. Connections that come later belong to node:http. */
  close(): void
}

const CHECK_INTERVAL_MS = 5_000
/** How long a client may keep its side open after the server has ended its own. Counted from the first check that sees it. */
const LINGER_MS_MAX = 2_000
/** How long a closing server waits for answers, and for clients to read them. Generation requests have been ended before. */
const CLOSING_MS_MAX = 5_000
const CLOSING_CHECK_INTERVAL_MS = 200

/** Watches all connections of a server: disconnects clients that do not read, and bounds the time in which the server closes. */
export class ConnectionWatch {
  readonly #open = new LinkedSet<WatchedConnection>()
  readonly #server: Server
  readonly #options: ConnectionWatchOptions
  #timer: NodeJS.Timeout
  /** performance.now() when the server began to close. */
  #closedMs = Number.POSITIVE_INFINITY

  constructor(server: Server, options: ConnectionWatchOptions) {
    this.#server = server
    this.#options = options
    server.on('connection', (socket: Socket) => {
      const connection = new WatchedConnection(socket)
      this.#open.add(connection)
      socket.once('close', () => this.#open.remove(connection))
    })
    this.#timer = this.#checkEvery(Math.min(CHECK_INTERVAL_MS, options.slowReaderMs))
  }

  get openCount(): number {
    return this.#open.size
  }

  /** Closes connections whose clients have stalled, and all connections when the server has been closing for five seconds. */
  check(nowMs: number): void {
    const isOver = nowMs - this.#closedMs >= CLOSING_MS_MAX
    for (const connection of this.#open) {
      if (isOver || connection.isStalled(nowMs, this.#options.slowReaderMs)) connection.socket.destroy()
    }
    for (const door of this.#options.doors) door.check(nowMs)
    if (this.#isClosed && this.#open.size === 0) clearInterval(this.#timer)
  }

  /**
   * Closes idle connections at once and the others after their answers. What is left after five seconds is cut off: an answer that does not
   * come, or a client that stops reading or sending, could otherwise keep the server from closing.
   */
  close(): void {
    this.#closedMs = performance.now()
    clearInterval(this.#timer)
    this.#timer = this.#checkEvery(CLOSING_CHECK_INTERVAL_MS)
    for (const door of this.#options.doors) door.close()
  }

  /** Checks at the end of a turn: after the process was suspended, it must read what clients have sent before it judges them. */
  #checkEvery(intervalMs: number): NodeJS.Timeout {
    const checkAll = () => {
      this.check(performance.now())
      // node:http closes idle connections when the server closes, and others when an answer ends, but not when a request ends after its answer.
      if (this.#isClosed) this.#server.closeIdleConnections()
    }
    return setInterval(() => endOfTurn(checkAll), intervalMs).unref()
  }

  get #isClosed(): boolean {
    return this.#closedMs < Number.POSITIVE_INFINITY
  }
}

class WatchedConnection implements LinkedItem<WatchedConnection> {
  older: WatchedConnection | undefined = undefined
  newer: WatchedConnection | undefined = undefined
  isListed = false
  readonly socket: Socket
  /** What the last check waited for, and since when. */
  #awaited: Awaited = null
  #awaitedSinceMs = 0

  constructor(socket: Socket) {
    this.socket = socket
  }

  /** Whether the client has taken none of its pending bytes for too long, or has not ended its side in time. */
  isStalled(nowMs: number, slowReaderMs: number): boolean {
    const awaited = this.#awaitedOfClient()
    if (awaited === null || awaited !== this.#awaited) {
      this.#awaited = awaited
      this.#awaitedSinceMs = nowMs
    }
    return nowMs - this.#awaitedSinceMs >= (awaited === 'its end' ? LINGER_MS_MAX : slowReaderMs)
  }

  #awaitedOfClient(): Awaited {
    const { socket } = this
    if (socket.writableFinished) return 'its end'
    return socket.writableLength > 0 ? takenBytes(socket) : null
  }
}

/** What a client must do next: end its side, or take more than this many bytes. Null when nothing is pending. */
type Awaited = 'its end' | number | null
