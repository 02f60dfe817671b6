import type { Timeouts } from '../domain/offer.ts'
import { Cancelled, hasClientLeft, UpstreamFailure } from '../domain/upstream-failure.ts'
import { ByteQueue } from '../runtime/byte-queue.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import { endOfTurn } from '../runtime/end-of-turn.ts'
import type { Connection, Exchange } from './connection.ts'
import { failureOfException } from './connection-failure.ts'
import type { Deadlines, Limited } from './deadlines.ts'
import type { ResponseHead } from './response-parser.ts'

/** Each phase has its own limit; a phase never goes back. */
type Phase = 'connecting' | 'waiting' | 'streaming' | 'completing' | 'draining' | 'closed'

const QUEUE_BYTES_MAX = 256 * 1024
/** Of what is queued, so much is handed over at once: the reader may want a pause before the rest. */
const PIECE_BYTES_MAX = 64 * 1024
export const WHOLE_BYTES_MAX = 16 * 1024 * 1024
/**
 * Text that outgrows max_tokens is cut by its reader, and time bounds the rest: this ends an upstream that has gone mad. Far above what a
 * request can ask for (16 choices with 20 logprobs for each of 10,000 tokens are 400 MB), since a stream that breaks off is free.
 */
const STREAM_BYTES_MAX = 1024 * 1024 * 1024
const ERROR_BYTES_MAX = 64 * 1024
/** How long a finished answer waits for its usage report, and an error for its words, at most. */
const COMPLETING_MS = 3_000
/** How long, and how much, the rest of a response may take for the sake of keeping its connection. */
const DRAINING_MS = 1_000
const DRAINING_BYTES_MAX = 64 * 1024
const LOST_BEFORE_RESPONSE_MS = 1_000
const lossCodes = new Set(['ECONNRESET', 'EPIPE'])
/** Of an exchange that has no response yet. */
const noHead: ResponseHead = { status: 0, contentType: '', contentEncoding: '', retryAfter: '', retryAfterMs: '' }

/** Takes the body as it arrives, and must not keep `piece`, which is overwritten by the next. While a promise it returned is pending, nothing more is handed over. */
export type BodySink = (piece: Buffer) => void | Promise<void>

/**
 * One request and its response: a connection on one side, a reader of its bytes on the other. A slow reader pauses the
 * socket. Connect, first-token, idle and total limit are one deadline, which `Deadlines` looks at now and then: data only
 * moves a timestamp.
 */
export class UpstreamExchange implements Exchange, Limited {
  older: Limited | undefined = undefined
  newer: Limited | undefined = undefined
  isListed = false
  head = noHead
  /**
   * Resolves with the headers of a stream, and at the end of the turn in which the last byte of a whole answer is read, together with the others
   * of that turn. Rejects with UpstreamFailure. Somebody has to wait for it.
   */
  readonly arrived: Promise<UpstreamExchange>
  /** A kept connection was lost as soon as the request was sent, before any byte of a response: it may have been closing already. */
  lostBeforeResponse = false

  readonly #timeouts: Timeouts
  readonly #stream: boolean
  readonly #signal: CancelSignal
  readonly #deadlines: Deadlines
  /** Of the upstream. Its reader has as long again. */
  readonly #totalMs: number
  readonly #totalDeadlineMs: number
  readonly #onAbort = () => this.#fail(this.cancellation())
  readonly #arrived = Promise.withResolvers<UpstreamExchange>()
  #connection: Connection | null = null
  #phase: Phase = 'connecting'
  #phaseStartMs = performance.now()
  #lastDataMs = 0
  readonly #queue = new ByteQueue()
  #bodyBytes = 0
  #ended = false
  #failure: UpstreamFailure | null = null
  #take: BodySink | null = null
  #isTaking = false
  /**
   * So long the reader was so far behind that the upstream had to wait for it, apart from a wait that is not over. Who waits at the very moment of
   * a time limit says nothing: a quick reader is behind for an instant after any burst, and a slow one may have caught up just in time.
   */
  #heldUpMs = 0
  /** performance.now() at the start of the last such wait. */
  #heldUpSinceMs = 0
  #bodyDone: PromiseWithResolvers<void> | null = null

  /** `remainingMs` bounds the whole exchange together with the endpoint's own total limit. */
  constructor(timeouts: Timeouts, stream: boolean, remainingMs: number, signal: CancelSignal, deadlines: Deadlines) {
    this.#timeouts = timeouts
    this.#stream = stream
    this.#signal = signal
    this.#deadlines = deadlines
    this.#totalMs = Math.min(timeouts.totalMs, remainingMs)
    this.#totalDeadlineMs = this.#phaseStartMs + this.#totalMs
    this.arrived = this.#arrived.promise
    deadlines.add(this)
    signal.addEventListener('abort', this.#onAbort)
  }

  /**
   * Hands the body of a stream over, what is here already first and the rest in the very call in which it is read: an async
   * iterator would cost each piece of a stream three promises. Resolves at the end of the body or when the exchange is
   * released; rejects with UpstreamFailure, or with what `take` threw. May be called once.
   */
  read(take: BodySink): Promise<void> {
    this.#take = take
    const done = Promise.withResolvers<void>()
    this.#bodyDone = done
    this.#handOver()
    return done.promise
  }

  /** The body of a whole answer, once it has arrived; of an error as much as could be had: its status alone decides enough. */
  get text(): string {
    return this.#queue.toString()
  }

  /** What a stream's request got instead of a stream: the body of an error, as much of it as can be had. */
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

  /** At least begun to be. */
  get #isSent(): boolean {
    return this.#phase !== 'connecting'
  }

  get #isError(): boolean {
    return this.head.status !== 0 && this.head.status !== 200
  }

  /** Content has arrived: from now on the idle limit counts instead of the first-token limit. */
  contentStarted(): void {
    if (this.#phase === 'waiting') this.#enter('streaming')
  }

  /** The answer is whole: only its usage report is still waited for, and not for long. */
  answerComplete(): void {
    if (this.#phase === 'waiting' || this.#phase === 'streaming') this.#enter('completing')
  }

  /** It was not whole after all. */
  answerResumed(): void {
    if (this.#phase === 'completing') this.#enter('streaming')
  }

  /** Nothing more is wanted. The rest passes unseen, so that the connection can be used again, or is cut off after a second. */
  release(): void {
    if (this.#phase === 'closed' || this.#phase === 'draining') return
    this.#take = null
    this.#bodyDone?.resolve()
    if (this.#ended || this.#failure) {
      this.#close()
      return
    }
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#enter('draining')
    this.#bodyBytes = 0
    if (this.#stream) this.#queue.clear()
    this.#connection?.resume()
  }

  /** What its aborted signal says of it. */
  cancellation(): Cancelled {
    return new Cancelled(hasClientLeft(this.#signal) ? 'client_left' : 'gateway_stopping', this.#isSent)
  }

  /** Nothing more is wanted, and the upstream is to stop working on it. */
  abort(): void {
    const failure = new Cancelled('not_wanted', this.#isSent)
    this.#fail(failure)
    this.#stopReading(failure)
  }

  onConnection(connection: Connection): void {
    this.#connection = connection
  }

  onSent(): void {
    this.#enter('waiting')
  }

  onResponseStart(head: ResponseHead): void {
    this.head = head
    // The next server is not to wait for an error that does not end: its status says enough.
    if (this.#isError) this.#enter('completing')
    if (this.#stream) this.#arrived.resolve(this)
  }

  onResponseData(piece: Buffer): void {
    this.#lastDataMs = performance.now()
    this.#bodyBytes += piece.length
    if (this.#phase === 'draining') {
      if (this.#bodyBytes > DRAINING_BYTES_MAX) this.abort()
      return
    }
    const bytesMax = this.#stream ? STREAM_BYTES_MAX : WHOLE_BYTES_MAX
    if (this.#bodyBytes > bytesMax) {
      this.#fail(tooLarge(bytesMax))
    } else if (this.#take !== null && !this.#isTaking) {
      this.#give(piece)
    } else {
      this.#queue.add(piece)
      if (this.#stream) {
        if (this.#queue.length > QUEUE_BYTES_MAX) {
          this.#holdUp()
        }
      } else if (this.#isError && this.#bodyBytes > ERROR_BYTES_MAX) {
        this.#arrived.resolve(this)
        this.release()
      }
    }
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#connection = null
    this.#close()
    if (!this.#stream) endOfTurn(() => this.#arrived.resolve(this))
    else if (this.#queue.length === 0 && !this.#isTaking) this.#bodyDone?.resolve()
  }

  onResponseError(error: Error): void {
    const mayHaveBeenClosing = this.#connection?.mayBeClosing ?? false
    this.#connection = null
    this.lostBeforeResponse = mayHaveBeenClosing && this.#phase === 'waiting' && this.#isLoss(error)
    this.#fail(failureOfException(error, this.#isSent))
  }

  /** Gives away what is queued, until the reader wants a pause; then the end, if that is here too. */
  #handOver(): void {
    while (this.#queue.length > 0 && this.#take !== null && !this.#isTaking) {
      this.#give(this.#queue.take(PIECE_BYTES_MAX))
    }
    if (this.#take === null || this.#isTaking) return
    if (this.#failure) this.#bodyDone?.reject(this.#failure)
    else if (this.#ended) this.#bodyDone?.resolve()
    else if (this.#connection?.isPaused) {
      this.#lastDataMs = performance.now()
      this.#heldUpMs += this.#lastDataMs - this.#heldUpSinceMs
      this.#connection.resume()
    }
  }

  #holdUp(): void {
    if (this.#connection === null || this.#connection.isPaused) return
    this.#connection.pause()
    this.#heldUpSinceMs = performance.now()
  }

  #give(piece: Buffer): void {
    try {
      const pause = this.#take!(piece)
      if (pause === undefined) return
      this.#isTaking = true
      pause.then(
        () => {
          this.#isTaking = false
          this.#handOver()
        },
        error => this.#stopReading(error),
      )
    } catch (error) {
      this.#stopReading(error)
    }
  }

  /** Nothing more is handed over. Who reads hears why, and ends the exchange. */
  #stopReading(error: unknown): void {
    this.#take = null
    this.#isTaking = false
    this.#bodyDone?.reject(error)
  }

  #fail(failure: UpstreamFailure): void {
    if (this.#failure || this.#phase === 'closed') return
    this.#failure = failure
    this.#close()
    this.#connection?.destroy()
    this.#connection = null
    if (this.#isError && !this.#stream && !this.#signal.aborted) this.#arrived.resolve(this)
    else this.#arrived.reject(failure)
    // What arrived before is handed over first.
    if (this.#queue.length === 0 && !this.#isTaking) this.#bodyDone?.reject(failure)
  }

  #close(): void {
    this.#phase = 'closed'
    this.#deadlines.remove(this)
    this.#signal.removeEventListener('abort', this.#onAbort)
  }

  #enter(phase: Phase): void {
    this.#phase = phase
    this.#phaseStartMs = performance.now()
    this.#lastDataMs = this.#phaseStartMs
  }

  /** Called now and then by Deadlines: fails the exchange when the limit of its phase is over. */
  checkDeadline(nowMs: number): void {
    // Pieces that wait here were sent in time: it is us who are slow.
    if (this.#phase === 'streaming' && this.#queue.length > 0) this.#lastDataMs = nowMs
    if (this.#deadlineMs(nowMs) <= nowMs) this.#fail(this.#timedOut(nowMs))
  }

  /**
   * So long as the upstream waits for its reader its total limit does not run, up to once more that limit. Or who reads slowly, for a part of
   * the time, would have a long answer for free, all but its end, and the upstream the blame.
   */
  #deadlineMs(nowMs: number): number {
    return Math.min(this.#totalDeadlineMs + Math.min(this.#heldUpUntil(nowMs), this.#totalMs), this.#phaseDeadlineMs())
  }

  #heldUpUntil(nowMs: number): number {
    return this.#heldUpMs + (this.#connection?.isPaused ? nowMs - this.#heldUpSinceMs : 0)
  }

  #phaseDeadlineMs(): number {
    switch (this.#phase) {
      case 'connecting':
        return this.#phaseStartMs + this.#timeouts.connectMs
      case 'waiting':
        // A whole answer comes after all of its tokens: only the total limit can judge it.
        return this.#stream ? this.#phaseStartMs + this.#timeouts.firstTokenMs : Number.POSITIVE_INFINITY
      case 'streaming':
        return this.#lastDataMs + this.#timeouts.idleMs
      case 'completing':
        return this.#phaseStartMs + Math.min(this.#timeouts.idleMs, COMPLETING_MS)
      case 'draining':
        return this.#phaseStartMs + DRAINING_MS
      case 'closed':
        return Number.POSITIVE_INFINITY
    }
  }

  /** A connection that was closing already is noticed within a round trip. */
  #isLoss(error: Error & { code?: string }): boolean {
    return lossCodes.has(error.code ?? '') && performance.now() - this.#phaseStartMs < LOST_BEFORE_RESPONSE_MS
  }

  #timedOut(nowMs: number): UpstreamFailure {
    switch (this.#phase) {
      case 'connecting':
        return new UpstreamFailure('connect_failed', 'No connection within the connect limit.')
      case 'waiting':
        return new UpstreamFailure('first_token_timeout', 'No answer within the first-token or total limit.')
      default:
        // Also of a reader that was slow before: this limit does not run while anything waits here, so it was the upstream that stood still.
        if (this.#phaseDeadlineMs() <= nowMs) {
          return new UpstreamFailure('server_error', 'The stream stood still longer than the idle limit.')
        }
        return this.#heldUpUntil(nowMs) >= this.#totalMs
          ? new Cancelled('read_too_slowly', true)
          : new UpstreamFailure('server_error', 'The stream took longer than the total limit.')
    }
  }
}

export function tooLarge(bytesMax: number): UpstreamFailure {
  return new UpstreamFailure('malformed', `The answer is larger than ${bytesMax} bytes.`)
}
