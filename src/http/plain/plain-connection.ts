import type { Socket } from 'node:net'
import type { LinkedItem } from '../../base/runtime/collections.ts'
import { ByteQueue } from '../../base/runtime/counted-memory.ts'
import { closeAfter, type HeaderList } from '../../base/runtime/header-list.ts'
import { isLastAnswer, noteAnswered, noteRequest } from '../connection-bound.ts'
import { parsePlainRequest, type RequestLines } from './plain-request.ts'
import { PlainResponse, type ResponseOwner } from './plain-response.ts'

/** Shared by all connections of a server. */
export interface ConnectionContext {
  readonly lines: RequestLines
  readonly keepAliveMs: number
  /** See `PlainServerOptions`. */
  readonly isHere: ((rawHeaders: readonly string[]) => boolean) | undefined
  /** Hands the socket to node:http. */
  handOver(socket: Socket): void
  /** Answers a truncated request as node:http would. */
  refuse(error: Error, socket: Socket): void
  /** Called when the connection has been closed or handed over. */
  onGone(connection: PlainConnection): void
}

/** A client that sends nothing for this long after it has connected is disconnected. */
const SILENT_MS_MAX = 10_000
/**
 * An incomplete request is handed to node:http at the first check after this long. The timeouts of node:http
 * start then.
 */
const PART_MS_MAX = 1_000
/**
 * A request in more pieces is also handed over: each piece is joined to the ones before it, which is too
 * expensive for many small pieces.
 */
const PIECES_MAX = 16
/**
 * Limit of the bytes that arrive during an answer. Later bytes are discarded and the connection closes after the
 * answer, to bound memory.
 */
const PIPELINED_BYTES_MAX = 64 * 1024

/** One connection, which serves at most one request at a time. */
export class PlainConnection implements ResponseOwner, LinkedItem<PlainConnection> {
  older: PlainConnection | undefined = undefined
  newer: PlainConnection | undefined = undefined
  isListed = false
  readonly socket: Socket
  readonly #context: ConnectionContext
  #response: PlainResponse | null = null
  /** The bytes of an incomplete request. */
  #part: Buffer | null = null
  #pieces = 0
  /** The least number of bytes with which the part can be a whole request. */
  #partBytesMin = 0
  /** The bytes that arrived during the current answer. */
  readonly #pipelined = new ByteQueue()
  /**
   * performance.now() when the connection was opened, last answered, or received the first byte of the current
   * part.
   */
  #sinceMs = performance.now()
  #hasServed = false
  #phase: Phase = 'serving'

  constructor(socket: Socket, context: ConnectionContext) {
    this.socket = socket
    this.#context = context
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', ignore)
  }

  get keepAliveS(): number {
    return this.#context.keepAliveMs / 1000
  }

  onAnswering(status: number, headers: HeaderList): void {
    if (isLastAnswer(status, this.socket, true)) closeAfter(headers)
  }

  onAnswered(keepsAlive: boolean): void {
    this.#response = null
    noteAnswered(this.socket)
    this.#hasServed = true
    this.#sinceMs = performance.now()
    if (!keepsAlive || this.#phase !== 'serving') this.#endAfterAnswer()
    else if (this.#pipelined.length > 0) this.#beginRequest(this.#pipelined.take(Number.POSITIVE_INFINITY))
  }

  /**
   * Closes the connection when it has been silent for too long. Hands it over when its request is slow to
   * arrive.
   */
  check(nowMs: number): void {
    const { socket } = this
    if (this.#response !== null || this.#phase === 'closing' || socket.destroyed) return
    const elapsedMs = nowMs - this.#sinceMs
    if (this.#part !== null) {
      if (elapsedMs >= PART_MS_MAX) this.handOver()
      return
    }
    const silentMsMax = this.#hasServed ? this.#context.keepAliveMs : SILENT_MS_MAX
    // Unwritten bytes belong to an answer that the client is slow to read.
    if (elapsedMs >= silentMsMax && socket.writableLength === 0) socket.destroy()
  }

  /** Called when the server closes. An incomplete request is handed to node:http. */
  close(): void {
    if (this.#phase === 'serving') this.#phase = 'last answer'
    if (this.#response !== null) return
    if (this.#part !== null) this.handOver()
    else if (this.socket.writableLength > 0) this.#endAfterAnswer()
    else this.socket.destroy()
  }

  /** Hands the connection to node:http, with the bytes that have not been parsed. */
  handOver(): void {
    const { socket } = this
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose).off('error', ignore)
    socket.pause()
    if (this.#part !== null) socket.unshift(this.#part)
    this.#discardInput()
    this.#context.onGone(this)
    this.#context.handOver(socket)
    socket.resume()
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#phase === 'closing') return
    if (this.#response !== null) this.#queuePipelined(bytes)
    else if (this.#part === null) this.#beginRequest(bytes)
    else {
      this.#part = Buffer.concat([this.#part, bytes])
      this.#pieces++
      this.#parse(this.#part)
    }
  }

  /** Keeps the pieces apart: joining each of 64 Ki single bytes to those before it would cost 0.7 s of CPU. */
  #queuePipelined(bytes: Buffer): void {
    if (this.#pipelined.length < PIPELINED_BYTES_MAX) this.#pipelined.add(bytes)
    else this.#phase = 'last answer'
  }

  #beginRequest(bytes: Buffer): void {
    this.#part = bytes
    this.#pieces = 1
    this.#partBytesMin = 0
    this.#sinceMs = performance.now()
    this.#parse(bytes)
  }

  /** Serves a complete request, waits for the rest of an incomplete one, and hands everything else over. */
  #parse(bytes: Buffer): void {
    if (bytes.length < this.#partBytesMin && this.#pieces <= PIECES_MAX) return
    const request = parsePlainRequest(bytes, this.#context.lines)
    if (typeof request === 'number' && this.#pieces <= PIECES_MAX) this.#partBytesMin = request
    // Backpressure is left to node:http: it reads no further request until the client has read its answers.
    else if (typeof request !== 'object' || this.socket.writableNeedDrain) this.handOver()
    else if (this.#context.isHere?.(request.rawHeaders) === false) this.handOver()
    else {
      this.#part = null
      this.#response = new PlainResponse(this)
      noteRequest(this.socket)
      request.route.serve(request, this.#response)
    }
  }

  /**
   * Ends the server's side after the answer, and reads on until the client ends its side. Closing with unread
   * bytes in the kernel would send a reset, and the client's kernel would discard an answer that was paid for.
   */
  #endAfterAnswer(): void {
    this.#phase = 'closing'
    this.#discardInput()
    this.socket.end()
  }

  #discardInput(): void {
    this.#part = null
    this.#pipelined.clear()
  }

  /** The client has ended its side. Like node:http, this treats the client as gone. */
  readonly #onEnd = (): void => {
    const isTruncated = this.#response === null && this.#part !== null
    this.#phase = 'closing'
    this.#discardInput()
    if (isTruncated) {
      // The error code of node:http's parser, so that the client gets the same answer. A socket that has ended
      // cannot be handed over.
      const error = Object.assign(new Error('The request is incomplete.'), { code: 'HPE_INVALID_EOF_STATE' })
      this.#context.refuse(error, this.socket)
    } else this.socket.end()
  }

  readonly #onClose = (): void => {
    this.#context.onGone(this)
    this.#discardInput()
    this.#response?.close()
    this.#response = null
  }
}

/**
 * `last answer`: the connection closes after the current answer. `closing`: the server's side has ended and
 * input is discarded.
 */
type Phase = 'serving' | 'last answer' | 'closing'

/** A 'close' event follows each 'error', and `#onClose` cleans up. */
function ignore(): void {}
