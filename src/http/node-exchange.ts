import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError, memoryUsedUp } from '../base/domain/errors.ts'
import type { CancelSignal } from '../base/runtime/cancel-signal.ts'
import { type ByteAccount, ByteQueue } from '../base/runtime/counted-memory.ts'
import { closeAfter, type HeaderList } from '../base/runtime/header-list.ts'
import { connectedMsOf, hasArrived, isLastAnswer } from './connection-bound.ts'
import {
  drained,
  encodeChunk,
  type GenerationHeader,
  type GenerationRequest,
  type GenerationResponse,
  SWITCHYARD_PREFIX,
  type UnreadAnswer,
} from './generation-exchange.ts'
import { bodyTooLarge } from './request-body.ts'

/**
 * A body may come in this many pieces, plus one for each 64 bytes. node:http reports each chunk of a chunked body
 * alone, which costs a microsecond: 4 MiB in chunks of one byte held the event loop for seconds.
 */
const PIECES_MAX = 8_192
const PIECE_BYTES_MIN = 64

function tooManyChunks(): ApiError {
  const message = 'The request body comes in too many small chunks. Send larger chunks, or a Content-Length.'
  return new ApiError('request_too_large', { message })
}

/** A request that node:http has parsed. */
export class NodeRequest implements GenerationRequest {
  readonly #request: IncomingMessage

  constructor(request: IncomingMessage) {
    this.#request = request
  }

  get httpVersion(): string {
    return this.#request.httpVersion
  }

  get target(): string {
    return this.#request.url!
  }

  get rawHeaders(): readonly string[] {
    return this.#request.rawHeaders
  }

  header(name: GenerationHeader): string | undefined {
    return this.#request.headers[name] as string | undefined
  }

  get switchyardHeaders(): readonly string[] | null {
    const { rawHeaders } = this.#request
    const found = rawHeaders.flatMap((name, i) =>
      i % 2 === 0 && name.toLowerCase().startsWith(SWITCHYARD_PREFIX) ? [name, rawHeaders[i + 1]!] : [],
    )
    return found.length > 0 ? found : null
  }

  readBody(limitBytes: number, memory: ByteAccount): Promise<Buffer> {
    const request = this.#request
    const { 'content-length': length } = request.headers
    if (Number(length) > limitBytes) return Promise.reject(bodyTooLarge(limitBytes))
    return new Promise((resolve, reject) => {
      const body = new ByteQueue(memory, length === undefined ? limitBytes : Number(length))
      let receivedBytes = 0
      let pieces = 0
      let isRefused = false
      request.on('data', (piece: Buffer) => {
        if (isRefused) return
        receivedBytes += piece.length
        pieces++
        const refusal =
          receivedBytes > limitBytes
            ? bodyTooLarge(limitBytes)
            : pieces > PIECES_MAX + receivedBytes / PIECE_BYTES_MIN
              ? tooManyChunks()
              : body.add(piece)
                ? null
                : memoryUsedUp(memory)
        if (refusal === null) return
        isRefused = true
        body.clear()
        reject(refusal)
      })
      request.on('end', () => {
        if (!isRefused) resolve(body.bytes)
      })
      const rejectIncomplete = () =>
        reject(
          new ApiError('invalid_json', {
            message: 'The connection closed before the whole body arrived. Send the request again.',
          }),
        )
      request.on('error', rejectIncomplete)
      // The client may have left before these listeners were added.
      if (request.destroyed) rejectIncomplete()
    })
  }
}

/** A response that node:http sends. Streams write their chunks directly to the socket where possible. */
export class NodeResponse implements GenerationResponse {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
  }

  get statusSent(): number | null {
    return this.#response.headersSent ? this.#response.statusCode : null
  }

  get isClosed(): boolean {
    return this.#response.destroyed
  }

  send(status: number, headers: HeaderList, body: string): void {
    const { req } = this.#response
    if (isLastAnswer(status, req.socket, hasArrived(req))) closeAfter(headers)
    this.#response.writeHead(status, headers).end(body)
  }

  startStream(headers: HeaderList): void {
    const { socket } = this.#response
    socket?.cork()
    this.#response.writeHead(200, headers).flushHeaders()
    if (socket) process.nextTick(() => socket.uncork())
  }

  write(text: string): boolean {
    const response = this.#response
    if (response.destroyed) return true
    const { socket } = response
    // A pipelined response has no socket until its turn comes; HTTP/1.0 has no chunks.
    if (socket === null || !response.chunkedEncoding) return response.write(text)
    if (!socket.writable) return true
    // `response.write` splits a chunk into four writes, corks them until the next tick and joins them with
    // writev. That costs 5 us per chunk, out of 35.
    return socket.write(encodeChunk(text))
  }

  end(): void {
    this.#response.end()
  }

  destroy(): void {
    if (!this.#response.writableEnded) this.#response.destroy()
  }

  get connectedMs(): number {
    return connectedMsOf(this.#response.req.socket)
  }

  get needsDrain(): boolean {
    return this.#response.writableNeedDrain || this.#response.socket?.writableNeedDrain === true
  }

  drained(signal: CancelSignal): Promise<void> {
    const response = this.#response
    return drained(response.writableNeedDrain || response.socket === null ? response : response.socket, signal)
  }

  onceClosed(listener: (isComplete: boolean) => void): void {
    this.#response.once('close', () => listener(this.#response.writableFinished))
  }

  get unread(): UnreadAnswer | null {
    const response = this.#response
    if (!this.needsDrain || response.closed) return null
    return { bytes: response.writableLength, onceRead: listener => response.once('close', listener) }
  }
}
