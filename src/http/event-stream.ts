import type { CancelSignal } from '../base/runtime/cancel-signal.ts'
import { type HeaderBuilder, type HeaderList, NO_SNIFFING } from '../base/runtime/header-list.ts'
import type { EventSink, ServedBy } from '../request/chat/completion-request.ts'
import type { GenerationResponse } from './generation-exchange.ts'

export interface EventStreamOptions {
  /** A comment is sent after this long without an event: proxies cut quiet connections after 60 to 125 s. */
  readonly pingMs: number
  /** The comment to send. */
  readonly ping: string
  /** Default: server-sent events. */
  readonly contentType?: string | undefined
  /** Builds the headers that every response has; called when the stream opens. */
  readonly headers: HeaderBuilder
  /** Aborted when the client disconnects or the gateway stops. Writes then no longer wait for the client. */
  readonly signal: CancelSignal
}

/**
 * A response of server-sent events. It is opened by the answer, or by the first ping if no answer arrives within
 * `pingMs`.
 */
export class EventStream implements EventSink {
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

  /**
   * Sends status and headers, unless a ping has already sent them. Never rejects: the answer must be settled
   * even if the client is gone.
   */
  open(servedBy: ServedBy, replayOf?: string): Promise<void> {
    return this.#open(servedByHeaders(servedBy, replayOf), replayOf).catch(() => this.#response.destroy())
  }

  /**
   * Sends complete events. Returns a promise when the client is behind; it resolves once the client has caught
   * up. A client that never catches up is disconnected by the server, which aborts the signal.
   */
  readonly write = (events: string): void | Promise<void> => {
    if (!this.#send(events)) return this.#response.drained(this.#options.signal)
  }

  /** Sends a last event and ends the stream, which must be open or being opened by a ping. */
  async endWith(event: string): Promise<void> {
    await this.#opened?.catch(() => this.#response.destroy())
    this.#send(event)
    this.#response.end()
  }

  end(): void {
    this.#response.end()
  }

  /** Must be called on every exit, also after `end`. */
  stopPings(): void {
    clearTimeout(this.#pingTimer)
  }

  #open(extraHeaders: readonly string[], answerId?: string): Promise<void> {
    this.#opened ??= this.#writeHead(extraHeaders, answerId)
    return this.#opened
  }

  /** False when the client is behind. */
  #send(events: string): boolean {
    if (this.#response.isClosed) return true
    this.#lastWriteMs = performance.now()
    return this.#response.write(events)
  }

  async #writeHead(extraHeaders: readonly string[], answerId: string | undefined): Promise<void> {
    const headers = await this.#options.headers(answerId)
    headers.push('content-type', this.#options.contentType ?? EVENT_STREAM, ...streamHeaders, ...extraHeaders)
    if (!this.#response.isClosed) this.#response.startStream(headers)
  }

  /** Computes the quiet time only when the timer fires: resetting the timer for each chunk cost 1 us. */
  #pingIfQuiet(): void {
    const { pingMs } = this.#options
    const quietMs = performance.now() - this.#lastWriteMs
    // Timers may fire a fraction of a millisecond early.
    if (quietMs >= pingMs - 1) void this.#ping().catch(() => this.#response.destroy())
    this.#pingTimer = setTimeout(() => this.#pingIfQuiet(), quietMs >= pingMs - 1 ? pingMs : pingMs - quietMs)
  }

  async #ping(): Promise<void> {
    await this.#open([])
    if (!this.#response.needsDrain) this.#send(this.#options.ping)
  }
}

const EVENT_STREAM = 'text/event-stream; charset=utf-8'

const streamHeaders: readonly string[] = [
  ...Object.entries(NO_SNIFFING).flat(),
  ...['cache-control', 'no-cache, no-transform'],
  // Without this header nginx buffers event streams.
  ...['x-accel-buffering', 'no'],
]

/**
 * Returns the headers that identify the server that answered. `replayOf`: the id of the earlier request, if its
 * answer is repeated.
 */
export function servedByHeaders(
  { provider, hosterId, maxTokens, droppedFields, changedFields, schemaViolation }: ServedBy,
  replayOf?: string,
): HeaderList {
  const headers = ['x-switchyard-provider', provider]
  if (replayOf !== undefined) headers.push('idempotent-replayed', 'true')
  if (hosterId !== null) headers.push('x-switchyard-hoster', hosterId)
  if (maxTokens !== null) headers.push('x-switchyard-max-tokens', String(maxTokens))
  if (droppedFields.length > 0) headers.push('x-switchyard-dropped-fields', listFields(droppedFields))
  if (changedFields.length > 0) headers.push('x-switchyard-changed-fields', listFields(changedFields))
  if (schemaViolation !== undefined) headers.push('x-switchyard-schema-violation', schemaViolation)
  return headers
}

/** Field names come from the client: only names that a header can contain are listed, and not hundreds. */
function listFields(names: readonly string[]): string {
  const listed = names.filter(name => /^[\w.-]{1,64}$/.test(name)).slice(0, 16)
  return [...listed, ...(listed.length < names.length ? ['...'] : [])].join(', ')
}
