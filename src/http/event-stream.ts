import { PING } from '../dialects/chat/sse-encode.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import type { GenerationResponse } from './generation-exchange.ts'
import type { HeadersOf } from './header-list.ts'

export interface EventStreamOptions {
  /** A comment is sent after this long without an event: proxies cut quiet connections after 60 to 125 s. */
  readonly pingMs: number
  /** The headers of every response; requested when the stream is opened. */
  readonly headers: HeadersOf
}

/** A response of server-sent events. The first event opens it, or the first ping when no event comes within `pingMs`. */
export class EventStream {
  readonly #response: GenerationResponse
  readonly #options: EventStreamOptions
  #opened: Promise<void> | undefined
  #lastWriteMs = performance.now()
  #pingTimer: NodeJS.Timeout

  constructor(response: GenerationResponse, options: EventStreamOptions) {
    this.#response = response
    this.#options = options
    this.#pingTimer = setTimeout(() => this.#pingIfQuiet(), options.pingMs)
  }

  get isOpen(): boolean {
    return this.#opened !== undefined
  }

  /** Sends status and headers, unless they were sent before. */
  open(more: readonly string[], answerId?: string): Promise<void> {
    this.#opened ??= this.#writeHead(more, answerId)
    return this.#opened
  }

  /** Sends complete events on an open stream. Returns false when the client is behind; `drained` waits for it. */
  write(frames: string): boolean {
    if (this.#response.isClosed) return true
    this.#lastWriteMs = performance.now()
    return this.#response.write(frames)
  }

  /**
   * Resolves when the client has caught up, or when the signal is aborted because the client left or the gateway stops; the caller's
   * frames then end. A client that never catches up is disconnected after `slowReaderMs`, which aborts the signal.
   */
  drained(signal: CancelSignal): Promise<void> {
    return this.#response.drained(signal)
  }

  end(): void {
    this.#response.end()
  }

  /** Must be called on every exit, also after `end`. */
  stopPings(): void {
    clearTimeout(this.#pingTimer)
  }

  async #writeHead(more: readonly string[], answerId: string | undefined): Promise<void> {
    const headers = await this.#options.headers(answerId)
    headers.push(...streamHeaders, ...more)
    if (!this.#response.isClosed) this.#response.startStream(headers)
  }

  /** Computes the quiet time when the timer fires: moving the timer with each chunk cost 1 us. */
  #pingIfQuiet(): void {
    const { pingMs } = this.#options
    const quietMs = performance.now() - this.#lastWriteMs
    // Timers may fire a fraction of a millisecond early.
    if (quietMs >= pingMs - 1) void this.#ping().catch(() => this.#response.destroy())
    this.#pingTimer = setTimeout(() => this.#pingIfQuiet(), quietMs >= pingMs - 1 ? pingMs : pingMs - quietMs)
  }

  async #ping(): Promise<void> {
    await this.open([])
    if (!this.#response.needsDrain) this.write(PING)
  }
}

const streamHeaders: readonly string[] = [
  ...['content-type', 'text/event-stream; charset=utf-8'],
  ...['cache-control', 'no-cache, no-transform'],
  // Without this header nginx buffers event streams.
  ...['x-accel-buffering', 'no'],
]
