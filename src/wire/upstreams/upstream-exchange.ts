import { Cancelled, hasClientLeft, type UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import { type ByteAccount, ByteQueue } from '../../base/runtime/counted-memory.ts'
import { endOfTurn } from '../../base/runtime/scheduler.ts'
import type { Connection, Exchange } from './connection.ts'
import { tooLarge, toUpstreamFailure } from './connection-failure.ts'
import type { ExchangeRequest } from './exchange-request.ts'
import { type Deadlines, ExchangeTimer, type TimeLimited } from './exchange-timer.ts'
import { EarlyResponse, type ResponseHead } from './response-parser.ts'

/** The socket is paused when more than this many bytes wait for the reader. */
const QUEUE_BYTES_MAX = 256 * 1024
/**
 * A last resort against an upstream that never stops: the reader enforces max_tokens, and the time limits
 * bound the rest. Far above what a request can need (16 choices with 20 logprobs for each of 10,000 tokens
 * make 400 MB), because an interrupted stream is free.
 */
const STREAM_BYTES_MAX = 1024 * 1024 * 1024
const ERROR_BYTES_MAX = 64 * 1024
/** The maximum number of bytes of an unwanted response that are read so that its connection can be reused. */
const DRAINING_BYTES_MAX = 64 * 1024
/** A server that was already closing the connection answers a request with a reset within a round trip. */
const LOST_BEFORE_RESPONSE_MS = 1_000
const lossCodes = new Set(['ECONNRESET', 'EPIPE'])
/** The head of an exchange that has no response yet. */
const noHead: ResponseHead = { status: 0, contentType: '', contentEncoding: '', retryAfter: '', retryAfterMs: '' }

/**
 * One request and its response: connects a `Connection` to a reader of the response body. A slow reader
 * pauses the socket.
 */
export class UpstreamExchange implements Exchange, TimeLimited {
  older: TimeLimited | undefined = undefined
  newer: TimeLimited | undefined = undefined
  isListed = false
  head = noHead
  /**
   * For a stream, resolves with the response head. Otherwise resolves when the complete answer is read, at
   * the end of that turn, together with the other answers of the turn. Rejects with UpstreamFailure. The
   * caller must handle the rejection.
   */
  readonly arrived: Promise<UpstreamExchange>
  /**
   * Whether a reused connection became unusable before its response: the server may have been closing it, or sent
   * bytes that belong to no request.
   */
  lostBeforeResponse = false

  readonly #stream: boolean
  readonly #signal: CancelSignal
  readonly #deadlines: Deadlines
  readonly #timer: ExchangeTimer
  readonly #body: BodyDelivery
  readonly #bytesMax: number
  /** Whether signs of life count before the first text. */
  readonly #isPatient: boolean
  readonly #onAbort = () => this.#fail(this.cancellation())
  readonly #arrived = Promise.withResolvers<UpstreamExchange>()
  #connection: Connection | null = null
  #bodyBytes = 0

  constructor(request: ExchangeRequest, deadlines: Deadlines) {
    const { stream, limits, bytesMax, signal, memory } = request
    this.#stream = stream
    this.#bytesMax = stream ? STREAM_BYTES_MAX : bytesMax
    this.#signal = signal
    this.#deadlines = deadlines
    this.#timer = new ExchangeTimer(limits)
    this.#isPatient = limits.thinkingMs !== undefined
    this.#body = new BodyDelivery(() => this.#resume(), memory)
    this.arrived = this.#arrived.promise
    deadlines.add(this)
    signal.addEventListener('abort', this.#onAbort)
  }

  /**
   * Delivers the body of a stream to `sink`: first the bytes received so far, then each piece in the call that
   * reads it. An async iterator would cost three promises per piece. Resolves at the end of the body or after
   * `release`; rejects with UpstreamFailure, or with the error that `sink` throws. Call it once.
   */
  read(sink: BodySink): Promise<void> {
    return this.#body.deliverTo(sink)
  }

  /** The body of a complete answer. For an error, the part that arrived, because the status matters most. */
  get text(): string {
    return this.#body.queuedText
  }

  /**
   * Reads the body of an error that answered a stream request, up to 64 KiB. Returns what arrived, even if
   * the connection broke.
   */
  async readText(): Promise<string> {
    const body = new ByteQueue()
    try {
      await this.read(piece => {
        body.add(piece)
        if (body.length > ERROR_BYTES_MAX) this.release()
      })
    } catch (failure) {
      if (this.#signal.aborted) throw failure
    }
    return body.toString()
  }

  /** Replaces the first-token limit with that between signs of life, if any. Call it at each event of the server. */
  lifeSeen(): void {
    if (this.#timer.phase === 'waiting' && this.#isPatient) this.#timer.enter('thinking')
  }

  /** Replaces the first-token limit with the next one. Call it at content; `isText`: more than reasoning. */
  contentStarted(isText: boolean): void {
    const { phase } = this.#timer
    if (phase === 'thinking' && !isText) return
    if (phase === 'waiting' || phase === 'thinking')
      this.#timer.enter(isText || !this.#isPatient ? 'receiving' : 'thinking')
  }

  /** Limits the wait for the usage report. Call it when the answer itself is complete. */
  answerComplete(): void {
    const { phase } = this.#timer
    if (phase === 'waiting' || phase === 'thinking' || phase === 'receiving') this.#timer.enter('completing')
  }

  /** Undoes `answerComplete`. Call it when more content arrives. */
  answerResumed(): void {
    if (this.#timer.phase === 'completing') this.#timer.enter('receiving')
  }

  /**
   * Stops reading. Discards the rest of the response so that the connection can be reused, and closes the
   * connection if that takes longer than a second.
   */
  release(): void {
    const { phase } = this.#timer
    if (phase === 'closed' || phase === 'draining') return
    this.#body.stop()
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#timer.enter('draining')
    this.#bodyBytes = 0
    if (this.#stream) this.#body.clear()
    this.#resume()
  }

  /** Returns the failure for the aborted signal. */
  cancellation(): Cancelled {
    return new Cancelled(hasClientLeft(this.#signal) ? 'client_left' : 'gateway_stopping', this.#isSent)
  }

  /** Stops reading and closes the connection, so that the upstream stops generating. */
  abort(): void {
    const failure = new Cancelled('not_wanted', this.#isSent)
    this.#fail(failure)
    this.#body.abandon(failure)
  }

  onConnection(connection: Connection): void {
    this.#connection = connection
  }

  onConnected(): void {
    if (this.#timer.phase === 'connecting') this.#timer.enter('connected')
  }

  onSent(): void {
    this.#timer.enter('waiting')
  }

  onResponseStart(head: ResponseHead): void {
    this.head = head
    // Do not let an error body that never ends delay the next server: the status is enough.
    if (this.#isError) this.#timer.enter('completing')
    if (this.#stream) this.#arrived.resolve(this)
  }

  onResponseData(piece: Buffer): void {
    this.#timer.onData()
    this.#bodyBytes += piece.length
    if (this.#timer.phase === 'draining') {
      if (this.#bodyBytes > DRAINING_BYTES_MAX) this.abort()
      return
    }
    if (this.#bodyBytes > this.#bytesMax) this.#fail(tooLarge(this.#bytesMax))
    else if (!this.#body.add(piece)) this.#fail(new Cancelled('memory_used_up', true))
    else if (this.#stream) {
      if (this.#body.queuedBytes > QUEUE_BYTES_MAX) this.#pause()
    } else if (!this.#isError) {
      if (this.#timer.phase === 'waiting' && !isBlank(piece)) this.#timer.enter('receiving')
    } else if (this.#bodyBytes > ERROR_BYTES_MAX) {
      this.#arrived.resolve(this)
      this.release()
    }
  }

  onResponseEnd(): void {
    this.#connection = null
    this.#close()
    if (!this.#stream) endOfTurn(() => this.#arrived.resolve(this))
    this.#body.end()
  }

  onResponseError(error: Error): void {
    const wasReused = this.#connection?.mayBeClosing ?? false
    this.#connection = null
    this.lostBeforeResponse = wasReused && (!this.#isSent || error instanceof EarlyResponse || this.#isLoss(error))
    this.#fail(toUpstreamFailure(error, this.#isSent))
  }

  /** Called by Deadlines: fails the exchange when one of its time limits is exceeded. */
  checkDeadline(nowMs: number): void {
    const failure = this.#timer.check(nowMs, this.#stream && this.#body.queuedBytes > 0)
    if (failure !== null) this.#fail(failure)
  }

  /** True once sending has begun. */
  get #isSent(): boolean {
    return this.#timer.phase !== 'connecting' && this.#timer.phase !== 'connected'
  }

  get #isError(): boolean {
    return this.head.status !== 0 && this.head.status !== 200
  }

  #isLoss(error: Error & { code?: string }): boolean {
    return lossCodes.has(error.code ?? '') && this.#timer.phaseElapsedMs < LOST_BEFORE_RESPONSE_MS
  }

  #pause(): void {
    if (this.#connection === null || this.#connection.isPaused) return
    this.#connection.pause()
    this.#timer.onPause()
  }

  #resume(): void {
    if (!this.#connection?.isPaused) return
    this.#timer.onResume()
    this.#connection.resume()
  }

  #fail(failure: UpstreamFailure): void {
    if (this.#timer.phase === 'closed') return
    this.#close()
    this.#connection?.destroy()
    this.#connection = null
    if (this.#isError && !this.#stream && !this.#signal.aborted) this.#arrived.resolve(this)
    else {
      if (!this.#stream) this.#body.clear()
      this.#arrived.reject(failure)
    }
    this.#body.fail(failure)
  }

  #close(): void {
    this.#timer.close()
    this.#deadlines.remove(this)
    this.#signal.removeEventListener('abort', this.#onAbort)
  }
}

/**
 * The maximum number of bytes in one piece. The sink may request a pause before the rest: a read of 64 KiB can hold
 * events that take 20 ms.
 */
const PIECE_BYTES_MAX = 8 * 1024

/**
 * Receives the body as it arrives. Must not keep `piece`: the next read overwrites it. A returned promise
 * pauses the delivery until it resolves.
 */
export type BodySink = (piece: Buffer) => void | Promise<void>

/**
 * Passes the bytes of one response body to one sink, in order and in the call that reads them. Queues what
 * arrives before the sink is attached or while it is busy.
 */
export class BodyDelivery {
  readonly #queue: ByteQueue
  readonly #onCaughtUp: () => void
  #sink: BodySink | null = null
  #isSinkBusy = false
  #done: PromiseWithResolvers<void> | null = null
  #hasEnded = false
  #failure: UpstreamFailure | null = null

  /**
   * @param onCaughtUp called when the sink has taken every queued byte and more may come
   * @param account pays for the memory of the queue
   */
  constructor(onCaughtUp: () => void, account: ByteAccount) {
    this.#onCaughtUp = onCaughtUp
    this.#queue = new ByteQueue(account)
  }

  get queuedBytes(): number {
    return this.#queue.length
  }

  /** The queued bytes as UTF-8. */
  get queuedText(): string {
    return this.#queue.toString()
  }

  /**
   * Attaches the sink. The promise settles with `end`, `stop`, `fail` or `abandon`, or rejects with the error
   * that the sink throws. Call it once.
   */
  deliverTo(sink: BodySink): Promise<void> {
    this.#sink = sink
    const done = Promise.withResolvers<void>()
    this.#done = done
    this.#deliverQueued()
    return done.promise
  }

  /** False if the account has no memory left for a queue. */
  add(piece: Buffer): boolean {
    if (this.#sink === null || this.#isSinkBusy) return this.#queue.add(piece)
    if (piece.length <= PIECE_BYTES_MAX) {
      this.#deliver(piece)
      return true
    }
    let at = 0
    while (at < piece.length && this.#sink !== null && !this.#isSinkBusy) {
      this.#deliver(piece.subarray(at, at + PIECE_BYTES_MAX))
      at += PIECE_BYTES_MAX
    }
    return at >= piece.length || this.#sink === null || this.#queue.add(piece.subarray(at))
  }

  /** Called when the body is complete. Resolves the promise once the queued bytes are delivered. */
  end(): void {
    this.#hasEnded = true
    if (this.#isCaughtUp) this.#done?.resolve()
  }

  /** Called when no more bytes will arrive. Rejects the promise once the queued bytes are delivered. */
  fail(failure: UpstreamFailure): void {
    this.#failure = failure
    if (this.#isCaughtUp) this.#done?.reject(failure)
  }

  /** Stops the delivery because the sink wants no more bytes. Resolves the promise now. */
  stop(): void {
    this.#sink = null
    this.#done?.resolve()
  }

  /** Rejects the promise now. The queued bytes are never delivered. */
  abandon(error: unknown): void {
    this.#sink = null
    this.#isSinkBusy = false
    this.#done?.reject(error)
  }

  clear(): void {
    this.#queue.clear()
  }

  get #isCaughtUp(): boolean {
    return this.#queue.length === 0 && !this.#isSinkBusy
  }

  #deliverQueued(): void {
    while (this.#queue.length > 0 && this.#sink !== null && !this.#isSinkBusy) {
      this.#deliver(this.#queue.take(PIECE_BYTES_MAX))
    }
    if (this.#sink === null || this.#isSinkBusy) return
    if (this.#failure !== null) this.#done?.reject(this.#failure)
    else if (this.#hasEnded) this.#done?.resolve()
    else this.#onCaughtUp()
  }

  #deliver(piece: Buffer): void {
    try {
      const pause = this.#sink!(piece)
      if (pause === undefined) return
      this.#isSinkBusy = true
      pause.then(
        () => {
          this.#isSinkBusy = false
          this.#deliverQueued()
        },
        error => this.abandon(error),
      )
    } catch (error) {
      this.abandon(error)
    }
  }
}

/** Whether a piece is white space, which some servers send while they generate. */
export function isBlank(piece: Buffer): boolean {
  let at = 0
  while (at < piece.length && piece[at]! <= 0x20) at++
  return at === piece.length
}
