import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { ByteQueue } from '../../runtime/byte-queue.ts'
import { endOfTurn } from '../../runtime/end-of-turn.ts'
import { type LinkedItem, LinkedSet } from '../../runtime/linked-set.ts'
import type { GenerationRoute } from '../generation-exchange.ts'
import { parsePlainRequest, RequestLines } from './plain-request.ts'
import { PlainResponse, type ResponseOwner } from './plain-response.ts'

export interface PlainDoorOptions {
  /** The routes that plain requests may lead to. */
  readonly routes: readonly GenerationRoute[]
  /** How long a connection may rest between two requests. */
  readonly keepAliveMs: number
  /** How long a client may take nothing of what waits for it, from the check on that sees it first. */
  readonly slowReaderMs: number
}

/** A request that is still incomplete after this long goes to node:http, whose own time-outs start then; noticed at the next check. */
const PART_MS_MAX = 5_000
/** So does one that comes in more pieces: each is joined to those before it, and many small ones would cost more than they are worth. */
const PIECES_MAX = 16
/** Who sends more ahead of an answer has the rest thrown away, and the connection closed after the answer: else it would fill our memory. */
const AHEAD_BYTES_MAX = 64 * 1024
const CHECK_INTERVAL_MS = 5_000
/** How long a client whose connection we have ended may leave its own side open, from the next check on. */
const LINGER_MS_MAX = 2_000
/** How long a server that closes waits for answers to come and for clients to read them. Chats were ended before. */
const CLOSING_MS_MAX = 5_000
const CLOSING_CHECK_INTERVAL_MS = 200

/**
 * The way of plain requests past node:http, whose parser, streams and messages took a fifth of a whole answer's CPU time
 * (docs/decisions/2026-11-22-plain-requests-go-past-node-http.md).
 *
 * A connection begins here. With the first bytes that are not a plain request (see `parsePlainRequest`) it is given to node:http, those bytes
 * first, and stays there: another address, a body in chunks, a long prompt, HTTP/1.0, whatever is odd or slow. Refusing is left to node:http too,
 * but for a request that breaks off: a socket that has ended cannot be given away. Clients that do not read and the end of the server are watched here
 * for all connections.
 */
export class PlainDoor {
  readonly #open = new LinkedSet<PlainConnection>()
  readonly #server: Server
  #checking: NodeJS.Timeout
  /** performance.now() when the server began to close. */
  #closedMs = Number.POSITIVE_INFINITY

  /** Takes over the connections of a server, which knows only those that it is given: where it closes, `close` has to be called too. */
  constructor(server: Server, { routes, keepAliveMs, slowReaderMs }: PlainDoorOptions) {
    this.#server = server
    const listeners = server.listeners('connection') as ((socket: Socket) => void)[]
    const context: ConnectionContext = {
      lines: new RequestLines(routes),
      keepAliveMs,
      slowReaderMs,
      handOver(socket) {
        for (const listener of listeners) listener.call(server, socket)
      },
      refuse(error, socket) {
        if (!server.emit('clientError', error, socket)) socket.destroy()
      },
      onGone: connection => this.#open.remove(connection),
    }
    server.removeAllListeners('connection').on('connection', (socket: Socket) => {
      const connection = new PlainConnection(socket, context)
      this.#open.add(connection)
      if (this.#isClosed) connection.handOver()
    })
    this.#checking = this.#checkEvery(Math.min(CHECK_INTERVAL_MS, slowReaderMs))
  }

  /**
   * Ends connections that have rested for too long or whose clients do not read, those that node:http has among them, and gives it the ones that
   * are slow to ask. Called now and then.
   */
  check(nowMs: number): void {
    const isOver = nowMs - this.#closedMs >= CLOSING_MS_MAX
    for (const connection of this.#open) {
      if (isOver) connection.socket.destroy()
      else connection.check(nowMs)
    }
    if (this.#isClosed && this.#open.size === 0) clearInterval(this.#checking)
  }

  /**
   * Ends connections that rest, and the others after their answers. A request that has begun to arrive goes to node:http. Whatever is left after five
   * seconds is cut off, node:http's too: an answer that does not come, a client that does not read or stops in the middle of its request could
   * keep a server from closing for ever.
   */
  close(): void {
    this.#closedMs = performance.now()
    clearInterval(this.#checking)
    this.#checking = this.#checkEvery(CLOSING_CHECK_INTERVAL_MS)
    for (const connection of this.#open) connection.close()
  }

  /** A process that stood still first reads what clients sent meanwhile, and sees what they have taken. */
  #checkEvery(ms: number): NodeJS.Timeout {
    const checkAll = () => {
      this.check(performance.now())
      // node:http closes what rests when the server closes, and after answers that end later, but not after requests that do.
      if (this.#isClosed) this.#server.closeIdleConnections()
    }
    return setInterval(() => endOfTurn(checkAll), ms).unref()
  }

  /** All connections of the server, node:http's too. */
  get openCount(): number {
    return this.#open.size
  }

  get #isClosed(): boolean {
    return this.#closedMs < Number.POSITIVE_INFINITY
  }
}

/** What the connections of a server have in common. */
interface ConnectionContext {
  readonly lines: RequestLines
  readonly keepAliveMs: number
  readonly slowReaderMs: number
  handOver(socket: Socket): void
  refuse(error: Error, socket: Socket): void
  onGone(connection: PlainConnection): void
}

/** One connection, with one request under way at most. */
class PlainConnection implements ResponseOwner, LinkedItem<PlainConnection> {
  older: PlainConnection | undefined = undefined
  newer: PlainConnection | undefined = undefined
  isListed = false
  readonly socket: Socket
  readonly #context: ConnectionContext
  #response: PlainResponse | null = null
  /** Read, and not yet a request. */
  #part: Buffer | null = null
  #pieces = 0
  /** With less than so many bytes the part is no request. */
  #partBytesMin = 0
  /** Read while an answer is under way: its turn comes after it. */
  readonly #ahead = new ByteQueue()
  /** performance.now() when it was opened, last answered, or read the first byte since. */
  #sinceMs = performance.now()
  #hasServed = false
  #phase: Phase = 'serving'
  /** What the last check waited for, and since when a check has. */
  #awaited: Awaited = 'nothing'
  #awaitedSinceMs = 0

  constructor(socket: Socket, context: ConnectionContext) {
    this.socket = socket
    this.#context = context
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', ignore)
  }

  get keepAliveS(): number {
    return this.#context.keepAliveMs / 1000
  }

  onAnswered(keepsAlive: boolean): void {
    this.#response = null
    this.#hasServed = true
    this.#sinceMs = performance.now()
    if (!keepsAlive || this.#phase !== 'serving') this.#leave()
    else if (this.#ahead.length > 0) this.#begin(this.#ahead.take(Number.POSITIVE_INFINITY))
  }

  check(nowMs: number): void {
    const { socket } = this
    const { keepAliveMs } = this.#context
    const elapsedMs = nowMs - this.#sinceMs
    if (this.#isDeserted(nowMs)) socket.destroy()
    else if (this.#response !== null || this.#phase === 'handed over' || this.#phase === 'leaving') return
    else if (this.#hasServed && this.#part === null) {
      // What is not written yet is an answer that the client is slow to read.
      if (elapsedMs >= keepAliveMs && socket.writableLength === 0) socket.destroy()
    } else if (elapsedMs >= PART_MS_MAX) this.handOver()
  }

  /** Whether the client has taken nothing of what waits for it for too long, or not ended its side after ours. */
  #isDeserted(nowMs: number): boolean {
    const { socket } = this
    const awaited = socket.writableFinished ? 'its end' : socket.writableLength > 0 ? takenBytes(socket) : 'nothing'
    if (awaited === 'nothing' || awaited !== this.#awaited) {
      this.#awaited = awaited
      this.#awaitedSinceMs = nowMs
    }
    return nowMs - this.#awaitedSinceMs >= (awaited === 'its end' ? LINGER_MS_MAX : this.#context.slowReaderMs)
  }

  /** The server closes. */
  close(): void {
    if (this.#phase === 'serving') this.#phase = 'last answer'
    if (this.#response !== null || this.#phase === 'handed over') return
    if (this.#part !== null) this.handOver()
    else if (this.socket.writableLength > 0) this.#leave()
    else this.socket.destroy()
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#phase === 'leaving') return
    if (this.#response !== null) this.#keepAhead(bytes)
    else if (this.#part === null) this.#begin(bytes)
    else {
      this.#part = Buffer.concat([this.#part, bytes])
      this.#pieces++
      this.#take(this.#part)
    }
  }

  /** Not as a part is: it cannot be given away yet, and to join each of 64 Ki pieces to those before it would cost 0.7 s of CPU. */
  #keepAhead(bytes: Buffer): void {
    if (this.#ahead.length < AHEAD_BYTES_MAX) this.#ahead.add(bytes)
    else this.#phase = 'last answer'
  }

  #begin(bytes: Buffer): void {
    this.#part = bytes
    this.#pieces = 1
    this.#partBytesMin = 0
    this.#sinceMs = performance.now()
    this.#take(bytes)
  }

  /** Serves what has been read if it is a whole request, waits if it is a part of one, and else gives it away. */
  #take(bytes: Buffer): void {
    if (bytes.length < this.#partBytesMin && this.#pieces <= PIECES_MAX) return
    const request = parsePlainRequest(bytes, this.#context.lines)
    if (typeof request === 'number' && this.#pieces <= PIECES_MAX) this.#partBytesMin = request
    // Who does not read answers gets no further ones, as node:http sees to.
    else if (typeof request !== 'object' || this.socket.writableNeedDrain) this.handOver()
    else {
      this.#part = null
      this.#response = new PlainResponse(this)
      request.route.serve(request, this.#response)
    }
  }

  /**
   * Ends our side when what was answered has been sent, and goes on reading until the client ends its own: were there bytes of it in the kernel
   * that nobody has read, closing would send a reset, at which the client's kernel throws away an answer that was paid for.
   */
  #leave(): void {
    this.#phase = 'leaving'
    this.#forget()
    this.socket.end()
  }

  #forget(): void {
    this.#part = null
    this.#ahead.clear()
  }

  /** Gives the connection to node:http. It is still watched here. */
  handOver(): void {
    const { socket } = this
    this.#phase = 'handed over'
    socket.off('data', this.#onData).off('end', this.#onEnd).off('error', ignore)
    socket.pause()
    if (this.#part !== null) socket.unshift(this.#part)
    this.#part = null
    this.#context.handOver(socket)
    socket.resume()
  }

  /** The client has closed its side, which node:http takes for leaving. */
  readonly #onEnd = (): void => {
    const isBrokenOff = this.#response === null && this.#part !== null
    this.#phase = 'leaving'
    this.#forget()
    if (isBrokenOff) {
      // As Node's parser would call it, so that it has the same answer.
      const error = Object.assign(new Error('The request broke off.'), { code: 'HPE_INVALID_EOF_STATE' })
      this.#context.refuse(error, this.socket)
    } else this.socket.end()
  }

  readonly #onClose = (): void => {
    this.#context.onGone(this)
    this.#forget()
    this.#response?.close()
    this.#response = null
  }
}

/**
 * A connection serves one request after the other until an answer is to be the last one; after that it is leaving, and what is read is thrown
 * away. One that is handed over is node:http's.
 */
type Phase = 'serving' | 'last answer' | 'leaving' | 'handed over'

/** Of a client: that it ends its side, or takes more than so many bytes. */
type Awaited = 'nothing' | 'its end' | number

/**
 * How much of what was written to a socket its kernel has taken. No public property tells: `writableLength` and `bytesWritten` count a write
 * as a whole, and an answer is one. Node's own time-outs of sockets look at this too, but take a client that sends for one that reads.
 */
function takenBytes(socket: Socket): number | 'nothing' {
  const { _handle: handle } = socket as Socket & { readonly _handle?: { bytesWritten: number; writeQueueSize: number } }
  return handle ? handle.bytesWritten - handle.writeQueueSize : 'nothing'
}

/** 'close' follows, and `#onClose` does what is to be done. */
function ignore(): void {}
