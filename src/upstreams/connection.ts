import type { OnReadOpts, Socket } from 'node:net'
import type { TimeLimited } from './deadlines.ts'
import type { ResponseHead } from './response-head.ts'
import { type ResponseHandler, ResponseParser } from './response-parser.ts'

/** The callbacks of one request. None of them may throw. */
export interface Exchange {
  /** The request has a connection, which may still be connecting. */
  onConnection(connection: Connection): void
  onSent(): void
  onResponseStart(head: ResponseHead): void
  /** Copy `bytes` to keep them: the next read overwrites them. */
  onResponseData(bytes: Buffer): void
  onResponseEnd(): void
  /** The connection is unusable. The last callback of the exchange. */
  onResponseError(error: Error): void
}

/** Thrown when the upstream closed the connection before its answer was complete. */
class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
  readonly code = 'ECONNRESET'
}

/** Used when the response has no `keep-alive` header: most servers close an idle connection after 5 s. */
const KEEP_IDLE_S_DEFAULT = 4
/** Some servers offer ten minutes, which would leave a thousand idle connections after a burst. */
const KEEP_IDLE_S_MAX = 30
/**
 * A connection is no longer reused this long before the server's limit. Otherwise a request could cross the
 * server's close.
 */
const KEEP_IDLE_S_MARGIN = 1
/**
 * All sockets read into the same memory, because each read is processed before the next one. A buffer per read
 * would be 64 KB to allocate, slice and collect.
 */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024)

export interface ConnectionKeeper {
  /** Called when the connection can serve another request. */
  onIdle(connection: Connection): void
  onClosed(connection: Connection): void
}

/** A connection to an upstream. It serves one request at a time. */
export class Connection implements ResponseHandler, TimeLimited {
  older: TimeLimited | undefined = undefined
  newer: TimeLimited | undefined = undefined
  isListed = false
  /** True for a reused connection until its next byte arrives: the server may be closing it. */
  mayBeClosing = false
  /** performance.now() when the connection may no longer be reused. */
  usableUntilMs = Number.POSITIVE_INFINITY
  readonly #socket: Socket
  readonly #keeper: ConnectionKeeper
  readonly #parser = new ResponseParser(this)
  #exchange: Exchange | null = null
  #isOpen = true
  #isPaused = false

  /** `connect` opens a socket that reads into `onread`. */
  constructor(connect: (onread: OnReadOpts) => Socket, keeper: ConnectionKeeper) {
    this.#keeper = keeper
    this.#socket = connect({ buffer: readBuffer, callback: bytes => this.#read(bytes) })
    this.#socket
      .on('end', () => this.#readEnd())
      .on('error', error => this.fail(error))
      .on('close', () => this.fail(new ConnectionLost('The upstream closed the connection.')))
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  get isUsable(): boolean {
    return this.#isOpen && performance.now() < this.usableUntilMs
  }

  /** Called by Deadlines while the connection is idle. */
  checkDeadline(nowMs: number): void {
    if (nowMs >= this.usableUntilMs) this.destroy()
  }

  /** Reserves the connection for `exchange` until its response ends. */
  assign(exchange: Exchange): void {
    this.#exchange = exchange
    exchange.onConnection(this)
  }

  /** Sends the request of the assigned exchange. The socket must be connected. */
  send(request: string): void {
    const exchange = this.#exchange
    if (exchange === null) return
    this.#parser.expect()
    this.#socket.write(request, 'utf8')
    exchange.onSent()
  }

  pause(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#socket.resume()
  }

  /** Closes the connection. Its exchange gets no more callbacks. */
  destroy(): void {
    this.#exchange = null
    this.#isOpen = false
    this.#socket.destroy()
  }

  /** Closes the connection. Its exchange fails with `error`. */
  fail(error: Error): void {
    const exchange = this.#exchange
    this.destroy()
    this.#keeper.onClosed(this)
    exchange?.onResponseError(error)
  }

  onHead(head: ResponseHead): void {
    this.#exchange?.onResponseStart(head)
  }

  onBody(bytes: Buffer): void {
    this.#exchange?.onResponseData(bytes)
  }

  onEnd(): void {
    const exchange = this.#exchange
    this.#exchange = null
    exchange?.onResponseEnd()
  }

  #read(bytes: number): boolean {
    this.mayBeClosing = false
    try {
      this.#parser.push(bytes === readBuffer.length ? readBuffer : readBuffer.subarray(0, bytes))
    } catch (error) {
      this.fail(error as Error)
      return true
    }
    if (this.#exchange === null && this.#isOpen) this.#becomeIdle()
    return true
  }

  /** Called when the response is complete and no byte followed it. */
  #becomeIdle(): void {
    const { keepsAlive, keepAliveS } = this.#parser
    const idleS = keepAliveS === null ? KEEP_IDLE_S_DEFAULT : Math.min(keepAliveS - KEEP_IDLE_S_MARGIN, KEEP_IDLE_S_MAX)
    // Unwritten bytes belong to a request that was answered early.
    if (!keepsAlive || idleS <= 0 || this.#socket.writableLength > 0) {
      this.destroy()
      return
    }
    this.mayBeClosing = true
    this.usableUntilMs = performance.now() + idleS * 1000
    this.resume()
    this.#keeper.onIdle(this)
  }

  #readEnd(): void {
    this.#parser.close()
    this.fail(new ConnectionLost('The upstream closed the connection before its answer was complete.'))
  }
}
