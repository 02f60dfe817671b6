import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { type Aged, AgeList } from '../domain/age-list.ts'
import { FastResponse, type ResponseOwner } from './fast-response.ts'
import type { RawResponse } from './raw-response.ts'
import { readWholeRequest, type WholeRequest } from './whole-request.ts'

export interface FastPathOptions {
  /** Requests to it come this way, `POST /v1/chat/completions` for example. */
  readonly endpoint: { readonly method: string; readonly path: string }
  readonly serve: (request: WholeRequest, response: RawResponse) => void
  /** How long a connection may rest between two requests. */
  readonly keepAliveMs: number
}

/** A request that is still incomplete after this long goes to node:http, whose own time-outs start then; noticed at the next check. */
const PART_MS_MAX = 5_000
const CHECK_INTERVAL_MS = 5_000
/** Reading stops here while an earlier request is answered, or who sends ahead fills our memory; one read (64 KiB) may go over it. */
const AHEAD_BYTES_MAX = 64 * 1024

/**
 * The way of plain requests past node:http, whose parser, streams and messages took a fifth of a whole answer's CPU time
 * (docs/decisions/2026-11-22-plain-requests-go-past-node-http.md).
 *
 * A connection begins here. With the first bytes that are not a plain request (see `readWholeRequest`) it is given to node:http, those bytes
 * first, and stays there: another address, a body in chunks, a long prompt, HTTP/1.0, whatever is odd or slow. Refusing is left to node:http too,
 * but for a request that breaks off: a socket that has ended cannot be given away.
 */
export class FastPath {
  readonly #open = new AgeList<FastConnection>()
  readonly #checking: NodeJS.Timeout
  #isClosed = false

  /** Takes over the connections of a server, which no longer knows them: where it closes, `close` has to be called too. */
  constructor(server: Server, { endpoint, serve, keepAliveMs }: FastPathOptions) {
    const listeners = server.listeners('connection') as ((socket: Socket) => void)[]
    const context: ConnectionContext = {
      requestLine: `${endpoint.method} ${endpoint.path} HTTP/1.1\r\n`,
      serve,
      keepAliveMs,
      passOn(socket) {
        for (const listener of listeners) listener.call(server, socket)
      },
      refuse(error, socket) {
        if (!server.emit('clientError', error, socket)) socket.destroy()
      },
      onGone: connection => this.#open.remove(connection),
    }
    server.removeAllListeners('connection').on('connection', (socket: Socket) => {
      if (this.#isClosed) context.passOn(socket)
      else this.#open.add(new FastConnection(socket, context))
    })
    this.#checking = setInterval(() => this.check(performance.now()), CHECK_INTERVAL_MS).unref()
  }

  /** Ends connections that have rested for too long, and gives slow ones to node:http. Called now and then. */
  check(nowMs: number): void {
    for (const connection of this.#open) connection.check(nowMs)
  }

  /** Ends connections that rest, and the others after their answers. A request that has begun to arrive goes to node:http. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#checking)
    for (const connection of this.#open) connection.close()
  }
}

/** What the connections of a server have in common. */
interface ConnectionContext {
  readonly requestLine: string
  readonly serve: FastPathOptions['serve']
  readonly keepAliveMs: number
  passOn(socket: Socket): void
  refuse(error: Error, socket: Socket): void
  onGone(connection: FastConnection): void
}

/** One connection, with one request under way at most. */
class FastConnection implements ResponseOwner, Aged<FastConnection> {
  older: FastConnection | undefined = undefined
  newer: FastConnection | undefined = undefined
  isListed = false
  readonly socket: Socket
  readonly #context: ConnectionContext
  #response: FastResponse | null = null
  /** Read, and not yet a request, or not yet its turn. */
  #part: Buffer | null = null
  /** performance.now() when it was opened, when it last answered, or when the first byte since then came. */
  #sinceMs = performance.now()
  #hasServed = false
  #isClosing = false

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
    if (!keepsAlive || this.#isClosing) this.socket.end()
    else if (this.#part !== null) {
      this.socket.resume()
      this.#take(this.#part)
    }
  }

  check(nowMs: number): void {
    if (this.#response !== null) return
    const elapsedMs = nowMs - this.#sinceMs
    if (this.#hasServed && this.#part === null) {
      // What is not written yet is an answer that the client is slow to read.
      if (elapsedMs >= this.#context.keepAliveMs && this.socket.writableLength === 0) this.socket.destroy()
    } else if (elapsedMs >= PART_MS_MAX) this.#passOn()
  }

  close(): void {
    this.#isClosing = true
    if (this.#response !== null) return
    if (this.#part === null) this.socket.destroySoon()
    else this.#passOn()
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#part === null) this.#sinceMs = performance.now()
    this.#part = this.#part === null ? bytes : Buffer.concat([this.#part, bytes])
    if (this.#response === null) this.#take(this.#part)
    else if (this.#part.length >= AHEAD_BYTES_MAX) this.socket.pause()
  }

  /** Serves what has been read if it is a whole request, waits if it is a part of one, and else gives it away. */
  #take(bytes: Buffer): void {
    const request = readWholeRequest(bytes, this.#context.requestLine)
    if (request === 'other') this.#passOn()
    else if (request !== 'part') {
      this.#part = null
      this.#response = new FastResponse(this)
      this.#context.serve(request, this.#response)
    }
  }

  #passOn(): void {
    const { socket } = this
    this.#context.onGone(this)
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose).off('error', ignore)
    socket.pause()
    if (this.#part !== null) socket.unshift(this.#part)
    this.#context.passOn(socket)
    socket.resume()
  }

  /** The client has closed its side, which node:http takes for leaving. */
  readonly #onEnd = (): void => {
    if (this.#response === null && this.#part !== null) {
      // As Node's parser would call it, so that it has the same answer.
      const error = Object.assign(new Error('The request broke off.'), { code: 'HPE_INVALID_EOF_STATE' })
      this.#context.refuse(error, this.socket)
    } else this.socket.end()
  }

  readonly #onClose = (): void => {
    this.#context.onGone(this)
    this.#part = null
    this.#response?.close()
    this.#response = null
  }
}

/** 'close' follows, and `#onClose` does what is to be done. */
function ignore(): void {}
