import { PING } from '../dialects/chat/sse-encode.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import { encodeChunk } from './encode-chunk.ts'
import type { HeadersOf } from './header-list.ts'
import type { RawResponse } from './raw-response.ts'

export interface EventStreamOptions {
  /** Silence is broken by a comment after this time: proxies cut quiet connections after 60 to 125 s. */
  readonly pingMs: number
  /** What every response carries; asked for when the stream is opened. */
  readonly headers: HeadersOf
}

/** A response of server-sent events: opened once, whoever asks first, its answer or the ping that cannot wait for it any longer. */
export class EventStream {
  readonly #out: RawResponse
  readonly #options: EventStreamOptions
  #opened: Promise<void> | undefined
  #lastWriteMs = performance.now()
  #pinging: NodeJS.Timeout

  constructor(out: RawResponse, options: EventStreamOptions) {
    this.#out = out
    this.#options = options
    this.#pinging = setTimeout(() => this.#pingIfQuiet(), options.pingMs)
  }

  get isOpen(): boolean {
    return this.#opened !== undefined
  }

  /** Sends the status and the headers, unless that was done before. */
  open(more: readonly string[], answerId?: string): Promise<void> {
    this.#opened ??= this.#writeHead(more, answerId)
    return this.#opened
  }

  /** Complete events of an open stream. False when the reader is behind: `drained` tells when it takes more. */
  write(frames: string): boolean {
    const out = this.#out
    if (out.destroyed) return true
    this.#lastWriteMs = performance.now()
    const { socket } = out
    // On a pipelined request's turn we have to wait, and HTTP/1.0 knows no chunks; both are on node:http.
    if (socket === null || !out.chunkedEncoding) return out.write!(frames)
    if (!socket.writable) return true
    // Framed here and written at once. `out.write` makes four writes of it, corked until the next tick and gathered again by
    // writev, which cost a chunk 5 us more of 35.
    return socket.write(encodeChunk(frames))
  }

  /**
   * Resolves when the socket takes more, or when the signal says that the client is gone or the gateway stops: the frames end by
   * themselves then. A reader that takes nothing is cut off by whoever watches the connection, and is gone then.
   */
  drained(signal: CancelSignal): Promise<void> {
    const out = this.#out
    const source = out.writableNeedDrain || out.socket === null ? out : out.socket
    return new Promise(resolve => {
      if (signal.aborted) return resolve()
      const done = () => {
        source.off('drain', done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      source.on('drain', done)
      signal.addEventListener('abort', done)
    })
  }

  end(): void {
    this.#out.end()
  }

  /** For every way out, also after `end`. */
  stopPings(): void {
    clearTimeout(this.#pinging)
  }

  async #writeHead(more: readonly string[], answerId: string | undefined): Promise<void> {
    const out = this.#out
    const headers = await this.#options.headers(answerId)
    headers.push(...streamHeaders, ...more)
    if (out.destroyed) return
    const { socket } = out
    // What is written in this turn travels with them.
    socket?.cork()
    out.writeHead(200, headers).flushHeaders()
    if (socket) process.nextTick(() => socket.uncork())
  }

  /** Looks how long it has been quiet: to move the timer with each chunk cost 1 us. */
  #pingIfQuiet(): void {
    const { pingMs } = this.#options
    const quietMs = performance.now() - this.#lastWriteMs
    // Timers may fire a fraction of a millisecond early.
    if (quietMs >= pingMs - 1) void this.#ping().catch(() => this.#out.destroy())
    this.#pinging = setTimeout(() => this.#pingIfQuiet(), quietMs >= pingMs - 1 ? pingMs : pingMs - quietMs)
  }

  async #ping(): Promise<void> {
    await this.open([])
    if (!this.#out.writableNeedDrain && !this.#out.socket?.writableNeedDrain) this.write(PING)
  }
}

const streamHeaders: readonly string[] = [
  ...['content-type', 'text/event-stream; charset=utf-8'],
  ...['cache-control', 'no-cache, no-transform'],
  // nginx buffers event streams unless told not to.
  ...['x-accel-buffering', 'no'],
]
