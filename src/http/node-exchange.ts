import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError, memoryUsedUp } from '../domain/errors.ts'
import type { ByteAccount } from '../runtime/byte-budget.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import {
  drained,
  encodeChunk,
  type GenerationHeader,
  type GenerationRequest,
  type GenerationResponse,
} from './generation-exchange.ts'
import type { HeaderList } from './header-list.ts'
import { bodyTooLarge } from './receive-body.ts'

/** A request that node:http has parsed. */
export class NodeRequest implements GenerationRequest {
  readonly #request: IncomingMessage

  constructor(request: IncomingMessage) {
    this.#request = request
  }

  get httpVersion(): string {
    return this.#request.httpVersion
  }

  get rawHeaders(): readonly string[] {
    return this.#request.rawHeaders
  }

  header(name: GenerationHeader): string | undefined {
    return this.#request.headers[name] as string | undefined
  }

  readBody(limitBytes: number, memory: ByteAccount): Promise<Buffer> {
    const request = this.#request
    if (Number(request.headers['content-length']) > limitBytes) return Promise.reject(bodyTooLarge(limitBytes))
    return new Promise((resolve, reject) => {
      let pieces: Buffer[] = []
      let bytes = 0
      let isRefused = false
      request.on('data', (piece: Buffer) => {
        bytes += piece.length
        if (isRefused) return
        const refusal =
          bytes > limitBytes ? bodyTooLarge(limitBytes) : memory.take(piece.length) ? null : memoryUsedUp()
        if (refusal === null) pieces.push(piece)
        else {
          isRefused = true
          pieces = []
          reject(refusal)
        }
      })
      request.on('end', () => {
        resolve(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))
        // Frees the pieces: the request keeps this listener until its answer ends, which may be a long stream.
        pieces = []
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
}
