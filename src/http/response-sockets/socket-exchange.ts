import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'
import type { HeaderList } from '../../base/runtime/header-list.ts'
import {
  drained,
  type GenerationHeader,
  type GenerationRequest,
  type GenerationResponse,
  type UnreadAnswer,
  unreadIn,
} from '../generation-exchange.ts'

/** A request for a response on a WebSocket: the headers of the handshake, with the body of a message. */
export class SocketRequest implements GenerationRequest {
  readonly httpVersion = '1.1'
  readonly #handshake: GenerationRequest
  readonly #bytes: number
  readonly readBody: (limitBytes: number, memory: ByteAccount) => Promise<Buffer>

  constructor(handshake: GenerationRequest, bytes: number, readBody: SocketRequest['readBody']) {
    this.#handshake = handshake
    this.#bytes = bytes
    this.readBody = readBody
  }

  get target(): string {
    return this.#handshake.target
  }

  get rawHeaders(): readonly string[] {
    return this.#handshake.rawHeaders
  }

  get switchyardHeaders(): readonly string[] | null {
    return this.#handshake.switchyardHeaders
  }

  header(name: GenerationHeader): string | undefined {
    switch (name) {
      case 'content-type':
        return 'application/json'
      case 'content-length':
        return String(this.#bytes)
      // They would be about the handshake. The server refuses a handshake with an Idempotency-Key.
      case 'content-encoding':
      case 'transfer-encoding':
      case 'idempotency-key':
      case 'origin':
        return undefined
      default:
        return this.#handshake.header(name)
    }
  }
}

/** The code of a WebSocket that ends because of a fault here (RFC 6455, 7.4.1). */
const INTERNAL_ERROR = 1011

const COMPLETED = '{"type":"response.completed"'
const INCOMPLETE = '{"type":"response.incomplete"'

/** A response on a WebSocket: each server-sent event of a streamed response is a message, and so is an error. */
export class SocketResponse implements GenerationResponse {
  readonly #websocket: WebSocket
  readonly #socket: Socket
  /** The beginning of each message. */
  readonly #head: string
  #listeners: ((isComplete: boolean) => void)[] = []
  #isEnded = false
  statusSent: number | null = null
  /** The event that ended a response that can be continued, as JSON; null before, and if there is none. */
  lastEvent: string | null = null

  /** @param streamId the lane that each message names; null for none */
  constructor(websocket: WebSocket, socket: Socket, streamId: string | null) {
    this.#websocket = websocket
    this.#socket = socket
    this.#head = streamId === null ? '{' : `{"stream_id":${JSON.stringify(streamId)},`
  }

  get isClosed(): boolean {
    return this.#isEnded || this.#websocket.readyState !== this.#websocket.OPEN
  }

  send(status: number, headers: HeaderList, body: string): void {
    this.statusSent = status
    this.#sendJson(status === 200 ? body : errorEvent(status, body, headers))
    this.end()
  }

  /** The headers of a stream have no place on a WebSocket. */
  startStream(_headers: HeaderList): void {
    this.statusSent = 200
  }

  write(text: string): boolean {
    this.#socket.cork()
    for (let start = 0; start < text.length; ) {
      const end = text.indexOf('\n\n', start)
      const at = text.indexOf('data: ', start)
      // A comment, which keeps proxies from closing a stream, has no data.
      if (at !== -1 && at < end) this.#onEvent(text.slice(at + 'data: '.length, end))
      start = end + 2
    }
    this.#socket.uncork()
    return !this.needsDrain
  }

  end(): void {
    this.#finish(true)
  }

  destroy(): void {
    if (this.#isEnded) return
    this.#websocket.close(INTERNAL_ERROR)
    this.#finish(false)
  }

  // The server of WebSockets closes them itself when the gateway stops: other lanes may be in use.
  readonly connectedMs = Number.POSITIVE_INFINITY

  /** The connection has closed. */
  onGone(): void {
    this.#finish(false)
  }

  get needsDrain(): boolean {
    return this.#socket.writableNeedDrain
  }

  drained(signal: CancelSignal): Promise<void> {
    return drained(this.#socket, signal)
  }

  onceClosed(listener: (isComplete: boolean) => void): void {
    this.#listeners.push(listener)
  }

  get unread(): UnreadAnswer | null {
    const socket = this.#socket
    if (!this.needsDrain || socket.destroyed) return null
    return unreadIn(socket)
  }

  #onEvent(json: string): void {
    if (json.startsWith(COMPLETED) || json.startsWith(INCOMPLETE)) this.lastEvent = json
    this.#sendJson(json)
  }

  #sendJson(json: string): void {
    if (!this.isClosed) this.#websocket.send(this.#head + json.slice(1))
  }

  #finish(isComplete: boolean): void {
    if (this.#isEnded) return
    this.#isEnded = true
    for (const listener of this.#listeners) listener(isComplete)
    this.#listeners = []
  }
}

/** Headers that are about the body of an HTTP response. */
const BODY_HEADERS: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'x-content-type-options',
  'connection',
])

/**
 * Returns the event of an error, as JSON. Clients find in `headers` what HTTP would tell them, such as Retry-After.
 *
 * @param body the JSON of the error of an HTTP response
 */
export function errorEvent(status: number, body: string, headers: HeaderList): string {
  const shown: Record<string, string> = {}
  for (let i = 0; i < headers.length; i += 2) {
    const name = elementAt(headers, i)
    if (!BODY_HEADERS.has(name)) shown[name] = elementAt(headers, i + 1)
  }
  return `{"type":"error","status":${status},${body.slice(1, -1)},"headers":${JSON.stringify(shown)}}`
}
