import type { Writable } from 'node:stream'
import type { CancelSignal } from '../base/runtime/cancel-signal.ts'
import type { ByteAccount } from '../base/runtime/counted-memory.ts'
import type { HeaderList } from '../base/runtime/header-list.ts'

/**
 * One request to a generation endpoint. Implemented for node:http (node-exchange.ts) and for the plain server
 * (plain/).
 */
export interface GenerationRequest {
  readonly httpVersion: string
  /** The path, and the query if there is one. */
  readonly target: string
  /** Alternating names and values, as the client sent them. */
  readonly rawHeaders: readonly string[]
  /**
   * Returns a header that was sent at most once. Where duplicates matter, check `rawHeaders`: node:http keeps the
   * first or joins them.
   */
  header(name: GenerationHeader): string | undefined
  /** The headers that begin with SWITCHYARD_PREFIX, names and values in turn; null when there are none. */
  readonly switchyardHeaders: readonly string[] | null
  /**
   * Reads the body. Call it once. Rejects with `request_too_large` as soon as the size is known to exceed the
   * limit (the rest is discarded), with `overloaded` as soon as `memory` gives nothing for the next bytes, and with
   * `invalid_json` when the client disconnects before the end. `receiveBody` checks the media type first.
   */
  readBody(limitBytes: number, memory: ByteAccount): Promise<Buffer>
}

/** In lower case. Headers with this prefix are the gateway's own: see request-headers.ts. */
export const SWITCHYARD_PREFIX = 'x-switchyard-'

/** The headers that the gateway reads by name. A new one also needs a case in `parsePlainRequest`. */
export type GenerationHeader =
  | 'host'
  | 'origin'
  | 'content-type'
  | 'content-length'
  | 'content-encoding'
  | 'transfer-encoding'
  | 'idempotency-key'
  | 'session-id'
  | 'x-session-id'
  | 'x-claude-code-session-id'

/** The answer to a generation request: either `send`, or `startStream`, any number of `write`, and `end`. */
export interface GenerationResponse {
  /** Null until the head has been written. */
  readonly statusSent: number | null
  /** The answer has been sent, or the client is gone. Writing to a closed response does nothing. */
  readonly isClosed: boolean
  /** Sends a complete answer. `headers` must contain its `content-length`. */
  send(status: number, headers: HeaderList, body: string): void
  /**
   * Sends the head of a stream with status 200. Text written in the same turn of the event loop shares its
   * packet.
   */
  startStream(headers: HeaderList): void
  /**
   * Sends a part of the stream, which must not be empty. Returns false when the client is behind; then wait for
   * `drained`.
   */
  write(text: string): boolean
  /** Ends the stream. */
  end(): void
  /** Closes the connection, unless the response has already ended. */
  destroy(): void
  /** performance.now() when its connection was accepted; Infinity on a WebSocket, which has its own way to stop. */
  readonly connectedMs: number
  /** Whether unsent bytes exceed the socket's high-water mark. */
  readonly needsDrain: boolean
  /** Resolves when the client has caught up, or when the signal is aborted. */
  drained(signal: CancelSignal): Promise<void>
  /** Calls the listener once: when the answer has been sent (`isComplete`), or when it no longer can be. */
  onceClosed(listener: (isComplete: boolean) => void): void
  /** After the end: what the client has not read, if that is more than a socket's high-water mark. */
  readonly unread: UnreadAnswer | null
}

/** The part of an ended answer that the client has not read. */
export interface UnreadAnswer {
  readonly bytes: number
  /** Calls the listener once, when the client has read it or is gone. */
  onceRead(listener: () => void): void
}

/** The address of a generation endpoint and its handler. */
export interface GenerationRoute {
  readonly method: string
  /** Without a query. `{model}` in it stands for any text, so that the plain server does not serve the route. */
  readonly path: string
  readonly serve: (request: GenerationRequest, response: GenerationResponse) => void
}

/** Encodes text, which must not be empty, as one chunk of a chunked body (RFC 9112, 7.1). */
export function encodeChunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
}

/** Returns what the client of a socket has not read, for one that is full. */
export function unreadIn(socket: Pick<Writable, 'on' | 'off' | 'writableLength'>): UnreadAnswer {
  return {
    bytes: socket.writableLength,
    onceRead(listener) {
      const done = () => {
        socket.off('drain', done)
        socket.off('close', done)
        listener()
      }
      socket.on('drain', done)
      socket.on('close', done)
    },
  }
}

/** Resolves at the next 'drain' event of a stream, or when the signal is aborted. */
export function drained(stream: Pick<Writable, 'on' | 'off'>, signal: CancelSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve()
    const done = () => {
      stream.off('drain', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    stream.on('drain', done)
    signal.addEventListener('abort', done)
  })
}
