import type { OnReadOpts, Socket } from 'node:net'
import type { Limited } from './deadlines.ts'
import type { ResponseHead } from './response-head.ts'
import { type ResponseHandler, ResponseParser } from './response-parser.ts'

/** One request as its connection sees it. No call may throw. */
export interface Exchange {
  /** The connection has been found or is being made. */
  onConnection(connection: Connection): void
  onSent(): void
  onResponseStart(head: ResponseHead): void
  /** `bytes` are overwritten as soon as this returns: what is to last must be copied. */
  onResponseData(bytes: Buffer): void
  onResponseEnd(): void
  /** The connection is of no more use. Comes at most once, and nothing after it. */
  onResponseError(error: Error): void
}

/** The upstream closed the connection before its answer was whole. */
class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
  readonly code = 'ECONNRESET'
}

/** Servers that do not say how long they keep a connection keep it for 5 s, most of them. */
const KEPT_S_USUAL = 4
/** Servers may offer ten minutes; after a rush a thousand connections would stand by for that long. */
const KEPT_S_MAX = 30
/** So much earlier than the server we stop using it, or a request would meet its farewell. */
const KEPT_S_MARGIN = 1
/**
 * All sockets read into the same memory, since what they read is looked at before the next one reads: a buffer for each read is 64 KB to be
 * allocated, cut and collected.
 */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024)

export interface ConnectionKeeper {
  /** The connection can serve another request. */
  onIdle(connection: Connection): void
  onClosed(connection: Connection): void
}

/** A connection to an upstream: one request at a time, then the next. */
export class Connection implements ResponseHandler, Limited {
  older: Limited | undefined = undefined
  newer: Limited | undefined = undefined
  isListed = false
  /** Has served a request before, and not a byte has come since: the server may be closing it just now. */
  mayBeClosing = false
  /** performance.now() until which another request may be sent. */
  usableUntilMs = Number.POSITIVE_INFINITY
  readonly #socket: Socket
  readonly #keeper: ConnectionKeeper
  readonly #parser = new ResponseParser(this)
  #exchange: Exchange | null = null
  #isOpen = true
  #isPaused = false

  /** `connect` makes a socket that hands what it reads to `onread`. */
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

  /** Called now and then by Deadlines while it is idle. */
  checkDeadline(nowMs: number): void {
    if (nowMs >= this.usableUntilMs) this.destroy()
  }

  /** From now on the connection is this exchange's, until its end. */
  assign(exchange: Exchange): void {
    this.#exchange = exchange
    exchange.onConnection(this)
  }

  /** Sends the request of the exchange. The connection has to be established. */
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

  /** Ends it and what it is serving, which hears nothing any more. */
  destroy(): void {
    this.#exchange = null
    this.#isOpen = false
    this.#socket.destroy()
  }

  /** Ends it, and tells what it is serving why. */
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
    if (this.#exchange === null && this.#isOpen) this.#rest()
    return true
  }

  /** The response is whole, and nothing came after it. */
  #rest(): void {
    const { keepsAlive, keepAliveS } = this.#parser
    const keptS = keepAliveS === null ? KEPT_S_USUAL : Math.min(keepAliveS - KEPT_S_MARGIN, KEPT_S_MAX)
    // What is still to be written is the rest of a request that was answered early.
    if (!keepsAlive || keptS <= 0 || this.#socket.writableLength > 0) {
      this.destroy()
      return
    }
    this.mayBeClosing = true
    this.usableUntilMs = performance.now() + keptS * 1000
    this.resume()
    this.#keeper.onIdle(this)
  }

  #readEnd(): void {
    this.#parser.close()
    this.fail(new ConnectionLost('The connection ended before the answer did.'))
  }
}
