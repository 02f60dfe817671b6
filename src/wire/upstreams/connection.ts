import type { OnReadOpts } from 'node:net'
import { type LinkedItem, LinkedSet } from '../../base/runtime/collections.ts'
import { afterNextPoll, endOfTurn } from '../../base/runtime/scheduler.ts'
import type { ByteChannel } from './byte-channel.ts'
import {
  EarlyResponse,
  MalformedResponse,
  type ResponseHandler,
  type ResponseHead,
  ResponseParser,
  UnsolicitedBytes,
} from './response-parser.ts'

/** The callbacks of one request. None of them may throw. */
export interface Exchange {
  /** The request has a connection, which may still be connecting. */
  onConnection(connection: Connection): void
  /** The connection is established. The request is sent after the next poll. */
  onConnected(): void
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
/** A connection is no longer reused this long before the server's limit: a request could cross the server's close. */
const KEEP_IDLE_S_MARGIN = 1
/** The bounds of requests and of age limit how many answers an unnoticed second answer can shift. */
const REQUESTS_MAX = 100
const AGE_MS_MAX = 60_000
/** A request of this many characters or fewer fits into the send buffer of a socket that is idle. */
const SENT_AT_ONCE_MAX = 16 * 1024
/** A body may come in this many pieces, plus one for each 16 bytes. Chunks of one byte take a hundred times the CPU. */
const PIECES_MAX = 16_384
const PIECE_BYTES_MIN = 16
/** Before one response. Servers send one or two. */
const INTERIM_HEADS_MAX = 100
/**
 * All sockets read into the same memory, because each read is processed before the next one. A buffer per read
 * would be 64 KB to allocate, slice and collect.
 */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024)

export interface ConnectionKeeper {
  /** Called when a response is complete and the connection may be kept. */
  onIdle(connection: Connection): void
  /** Called when the connection can carry another request. */
  onReady(connection: Connection): void
  /** Called when the server sent bytes that no request asked for. The connection is closed afterwards. */
  onUnsolicited(): void
  onClosed(connection: Connection): void
}

/** A connection to an upstream. It serves one request at a time. */
export class Connection implements ResponseHandler, IdleConnection {
  older: IdleConnection | undefined = undefined
  newer: IdleConnection | undefined = undefined
  /** True while the connection is idle. */
  isListed = false
  isReady = false
  idleSinceTick = 0
  /** True for a reused connection until its next byte arrives: the server may be closing it. */
  mayBeClosing = false
  usableUntilMs = Number.POSITIVE_INFINITY
  readonly #keeper: ConnectionKeeper
  readonly #socket: ByteChannel
  readonly #openedMs = performance.now()
  readonly #parser = new ResponseParser(this)
  #exchange: Exchange | null = null
  #isOpen = true
  #isPaused = false
  #requestCount = 0
  /** True until the kernel has the whole request, as far as known at the last read. */
  #isSending = false
  /** The response began while `#isSending`. */
  #isEarly = false
  /** Counted for the current response. */
  #interimHeads = 0
  #pieces = 0
  #bodyBytes = 0

  /** `connect` opens a socket that reads into `onread`. */
  constructor(connect: (onread: OnReadOpts) => ByteChannel, keeper: ConnectionKeeper) {
    this.#keeper = keeper
    const socket = connect({ buffer: readBuffer, callback: bytes => this.#read(bytes) })
    this.#socket = socket
    socket.on('end', () => this.#readEnd())
    socket.on('error', error => this.fail(error))
    socket.on('close', () => this.fail(new ConnectionLost('The upstream closed the connection.')))
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  onReady(): void {
    this.#keeper.onReady(this)
  }

  /** Reserves the connection for `exchange` until its response ends. */
  assign(exchange: Exchange): void {
    this.#exchange = exchange
    exchange.onConnection(this)
  }

  /** Sends the request of the assigned exchange, if it is still wanted. The socket must be connected. */
  send(request: string): void {
    const exchange = this.#exchange
    if (exchange === null) return
    this.#parser.expect()
    this.#interimHeads = this.#pieces = this.#bodyBytes = 0
    this.#requestCount++
    this.#socket.write(request, 'utf8')
    if (request.length > SENT_AT_ONCE_MAX) this.#watchSending()
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
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#socket.destroy()
    this.#keeper.onClosed(this)
  }

  /** Closes the connection. Its exchange fails with `error`. */
  fail(error: Error): void {
    const exchange = this.#exchange
    this.destroy()
    exchange?.onResponseError(error)
  }

  /** An interim response may come before the server has read the request. */
  onInterimHead(): void {
    this.#isEarly = false
    if (++this.#interimHeads > INTERIM_HEADS_MAX) {
      throw new MalformedResponse(`The upstream sent more than ${INTERIM_HEADS_MAX} interim responses.`)
    }
  }

  onHead(head: ResponseHead): void {
    if (this.#isEarly || this.#isSending) this.#onEarlyHead(head)
    this.#exchange?.onResponseStart(head)
  }

  onBody(bytes: Buffer): void {
    this.#bodyBytes += bytes.length
    if (++this.#pieces > PIECES_MAX + this.#bodyBytes / PIECE_BYTES_MIN) {
      throw new MalformedResponse('The response comes in too many small pieces.')
    }
    this.#exchange?.onResponseData(bytes)
  }

  onEnd(): void {
    const exchange = this.#exchange
    this.#exchange = null
    exchange?.onResponseEnd()
  }

  /** Pauses until a TLS socket would have reported the end of the write, which it does one turn late. */
  #watchSending(): void {
    this.#isSending = true
    this.#socket.pause()
    afterNextPoll(() => this.#socket.resume())
  }

  /**
   * A server may refuse a request before it has read all of it (RFC 9112, 9.5), and the first response on a
   * connection cannot belong to an earlier request.
   */
  #onEarlyHead({ status }: ResponseHead): void {
    this.#isEarly = true
    if (status < 400) this.#keeper.onUnsolicited()
    else if (this.#requestCount === 1) return
    throw new EarlyResponse('The upstream answered before it could have read the request.')
  }

  #read(byteCount: number): boolean {
    const bytes = byteCount === readBuffer.length ? readBuffer : readBuffer.subarray(0, byteCount)
    if (this.#isSending) {
      this.#isSending = this.#socket.writableLength > 0
      this.#isEarly ||= this.#isSending
    }
    try {
      this.#parser.push(bytes)
    } catch (error) {
      if (error instanceof UnsolicitedBytes && !isTimeoutNotice(bytes)) this.#keeper.onUnsolicited()
      this.fail(error as Error)
      return true
    }
    this.mayBeClosing = false
    if (this.#exchange === null && this.#isOpen) this.#becomeIdle()
    else if (byteCount === readBuffer.length) this.#yieldToOthers()
    return true
  }

  /** More bytes are waiting. Without a pause, Node reads up to 2 MiB of them before it turns to other connections. */
  #yieldToOthers(): void {
    if (this.#isPaused) return
    this.#socket.pause()
    setImmediate(() => {
      if (!this.#isPaused) this.#socket.resume()
    })
  }

  /** Called when the response is complete and no byte followed it. */
  #becomeIdle(): void {
    const { keepsAlive, keepAliveS } = this.#parser
    const idleS = keepAliveS === null ? KEEP_IDLE_S_DEFAULT : Math.min(keepAliveS - KEEP_IDLE_S_MARGIN, KEEP_IDLE_S_MAX)
    const nowMs = performance.now()
    this.usableUntilMs = Math.min(nowMs + idleS * 1000, this.#openedMs + AGE_MS_MAX)
    if (!keepsAlive || this.#isEarly || this.#requestCount >= REQUESTS_MAX || nowMs >= this.usableUntilMs) {
      this.destroy()
      return
    }
    this.mayBeClosing = true
    this.resume()
    this.#keeper.onIdle(this)
  }

  #readEnd(): void {
    this.#parser.close()
    this.fail(new ConnectionLost('The upstream closed the connection before its answer was complete.'))
  }
}

/** Whether bytes are the notice with which some servers close an idle connection: a response with status 408. */
function isTimeoutNotice(bytes: Buffer): boolean {
  return /^HTTP\/1\.[01] 408/.test(bytes.toString('latin1', 0, 12))
}

export interface IdleConnection extends LinkedItem<IdleConnection> {
  /** performance.now() when the connection may no longer be reused. */
  readonly usableUntilMs: number
  /** True while the connection is idle and not in quarantine. Written by IdleConnections, as is the next field. */
  isReady: boolean
  idleSinceTick: number
  /** Called at the end of the quarantine. */
  onReady(): void
  /** Closes the connection and calls `remove`. */
  destroy(): void
}

/** How often the quarantine and the idle times are checked. */
const TICK_MS = 25
/** The ticks in quarantine: 250 to 275 ms. */
const QUARANTINE_TICKS = 11
/**
 * With more connections in quarantine than this, the oldest leave it early, after 50 to 75 ms or more. Otherwise
 * thousands of quick answers per second would pass through thousands of connections, too many for the processor's
 * caches: 1,100 connections cost 4 us of CPU time more per request than 128.
 */
const QUARANTINED_MAX = 128
const QUARANTINE_TICKS_MIN = 3
/** Leaves most of 10,000 descriptors to clients and to connections in use. */
const IDLE_MAX = 2_048

/**
 * The idle connections to all endpoints. A connection that becomes idle is in quarantine first: a server that
 * answers a request twice must not answer the next request with its second answer, so the connection has to be
 * silent for a while before it is ready for another request.
 *
 * The quarantine is counted in ticks and not in ms. Each tick waits until every readable socket was read, so a
 * stall of this process cannot hide bytes that arrived during the quarantine.
 */
export class IdleConnections {
  readonly #tickMs: number
  /** Both in the order in which the connections became idle. */
  readonly #quarantined = new LinkedSet<IdleConnection>()
  readonly #ready = new LinkedSet<IdleConnection>()
  #tick = 0
  #timer: NodeJS.Timeout | undefined

  /** @param tickMs shorter ticks shorten the quarantine */
  constructor(tickMs = TICK_MS) {
    this.#tickMs = tickMs
  }

  /**
   * Puts a connection in quarantine. At the limit, closes the ready connection that has been idle for the longest
   * time, or this connection if none is ready.
   */
  add(connection: IdleConnection): void {
    if (this.#quarantined.size + this.#ready.size >= IDLE_MAX) {
      const closed = this.#ready.oldest ?? connection
      closed.destroy()
      if (closed === connection) return
    }
    connection.idleSinceTick = this.#tick
    this.#quarantined.add(connection)
    this.#timer ??= setInterval(() => endOfTurn(() => this.#onTick()), this.#tickMs)
  }

  /** Removes a connection that is reused or closed. Does nothing for a connection that is not idle. */
  remove(connection: IdleConnection): void {
    if (connection.isReady) this.#ready.remove(connection)
    else this.#quarantined.remove(connection)
    connection.isReady = false
  }

  /** Closes the connections that wait for requests, to free their descriptors. */
  closeReady(): void {
    for (const connection of this.#ready) connection.destroy()
  }

  #onTick(): void {
    this.#tick++
    this.#endQuarantines()
    const nowMs = performance.now()
    for (const connection of this.#ready) if (nowMs >= connection.usableUntilMs) connection.destroy()
    if (this.#quarantined.size + this.#ready.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #endQuarantines(): void {
    const quarantined = this.#quarantined
    for (let oldest = quarantined.oldest; oldest !== undefined; oldest = quarantined.oldest) {
      const ticks = this.#tick - oldest.idleSinceTick
      if (ticks < (quarantined.size > QUARANTINED_MAX ? QUARANTINE_TICKS_MIN : QUARANTINE_TICKS)) return
      quarantined.remove(oldest)
      this.#ready.add(oldest)
      oldest.isReady = true
      oldest.onReady()
    }
  }
}
