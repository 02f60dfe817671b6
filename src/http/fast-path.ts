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

/** What has not become a plain request by then is given to node:http, whose own time-outs begin then. */
const PART_MS_MAX = 5_000
const CHECKED_EVERY_MS = 5_000
/** More than this is not read while an earlier request of the same connection is being answered. */
const AHEAD_BYTES_MAX = 64 * 1024

/**
 * The way of plain requests past node:http, whose parser, streams and messages cost a whole answer a seventh of its CPU time.
 *
 * A connection begins here. With the first bytes that are not a plain request (see `readWholeRequest`) it is given to node:http, those bytes
 * first, and stays there: another address, a body in chunks, a long prompt, HTTP/1.0, whatever is odd or slow. Nothing is refused here.
 */
export class FastPath {
  readonly #open = new AgeList<FastConnection>()
  readonly #checking: NodeJS.Timeout
  #isClosed = false

  /** Takes over the connections of a server. */
  constructor(server: Server, { endpoint, serve, keepAliveMs }: FastPathOptions) {
    const passOn = server.listeners('connection') as ((socket: Socket) => void)[]
    const way: Way = {
      start: `${endpoint.method} ${endpoint.path} HTTP/1.1\r\n`,
      serve,
      keepAliveMs,
      passOn: socket => {
        for (const listener of passOn) listener.call(server, socket)
      },
      refuse(error, socket) {
        if (!server.emit('clientError', error, socket)) socket.destroy()
      },
      onGone: connection => this.#open.remove(connection),
    }
    server.removeAllListeners('connection').on('connection', (socket: Socket) => {
      if (this.#isClosed) way.passOn(socket)
      else this.#open.add(new FastConnection(socket, way))
    })
    this.#checking = setInterval(() => this.check(performance.now()), CHECKED_EVERY_MS).unref()
  }

  /** Ends connections that have rested for too long, and gives slow ones to node:http. Called now and then. */
  check(nowMs: number): void {
    for (const connection of this.#open) connection.check(nowMs)
  }

  /** Ends connections that rest, and the others after their answers. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#checking)
    for (const connection of this.#open) connection.close()
  }
}

/** What the connections of a server have in common. */
interface Way {
  readonly start: string
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
  readonly #way: Way
  #response: FastResponse | null = null
  /** Read, and not yet a request, or not yet its turn. */
  #part: Buffer | null = null
  /** performance.now() of the last answer, or of the first byte after it. */
  #sinceMs = performance.now()
  #hasServed = false
  #isClosing = false

  constructor(socket: Socket, way: Way) {
    this.socket = socket
    this.#way = way
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', ignore)
  }

  get keepAliveS(): number {
    return this.#way.keepAliveMs / 1000
  }

  onAnswered(keepsAlive: boolean): void {
    this.#response = null
    this.#hasServed = true
    this.#sinceMs = performance.now()
    if (!keepsAlive || this.#isClosing) this.socket.end()
    else if (this.#part !== null) this.#takeNext()
  }

  check(nowMs: number): void {
    if (this.#response !== null) return
    const elapsedMs = nowMs - this.#sinceMs
    if (this.#hasServed && this.#part === null) {
      // What is not written yet is an answer that the client is slow to read.
      if (elapsedMs >= this.#way.keepAliveMs && this.socket.writableLength === 0) this.socket.destroy()
    } else if (elapsedMs >= PART_MS_MAX) this.#passOn()
  }

  close(): void {
    this.#isClosing = true
    if (this.#response === null) this.socket.destroySoon()
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#part === null) this.#sinceMs = performance.now()
    this.#part = this.#part === null ? bytes : Buffer.concat([this.#part, bytes])
    if (this.#response === null) this.#take()
    else if (this.#part.length > AHEAD_BYTES_MAX) this.socket.pause()
  }

  /** Serves what has been read if it is a whole request, waits if it is a part of one, and else gives it away. */
  #take(): void {
    const read = readWholeRequest(this.#part!, this.#way.start)
    if (read === 'other') this.#passOn()
    else if (read !== 'part') {
      this.#part = null
      this.#response = new FastResponse(this)
      this.#way.serve(read, this.#response)
    }
  }

  /** The request that came before the last one was answered. */
  #takeNext(): void {
    this.socket.resume()
    this.#take()
  }

  #passOn(): void {
    const { socket } = this
    this.#way.onGone(this)
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose).off('error', ignore)
    socket.pause()
    if (this.#part !== null) socket.unshift(this.#part)
    this.#way.passOn(socket)
    socket.resume()
  }

  /** The client has closed its side, which node:http takes for leaving. */
  readonly #onEnd = (): void => {
    if (this.#response === null && this.#part !== null) {
      const error = new Error('The request broke off.')
      this.#way.refuse(Object.assign(error, { code: 'HPE_INVALID_EOF_STATE' }), this.socket)
    } else this.socket.end()
  }

  readonly #onClose = (): void => {
    this.#way.onGone(this)
    this.#part = null
    this.#response?.close()
    this.#response = null
  }
}

/** A broken connection is closed next. */
function ignore(): void {}
