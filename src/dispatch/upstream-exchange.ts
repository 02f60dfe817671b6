import type { Dispatcher } from 'undici'
import type { Timeouts } from '../domain/offer.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import { failureOfException } from './classify.ts'

type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>

/** Each phase has its own limit; a phase never goes back. */
type Phase = 'connecting' | 'waiting' | 'streaming' | 'completing' | 'draining' | 'closed'

const QUEUE_BYTES_MAX = 256 * 1024
const WHOLE_BYTES_MAX = 16 * 1024 * 1024
const STREAM_BYTES_MAX = 64 * 1024 * 1024
const ERROR_BYTES_MAX = 64 * 1024
/** How long a finished answer waits for its usage report, at most. */
const COMPLETING_MS = 3_000
/** How long, and how much, the rest of a response may take for the sake of keeping its connection. */
const DRAINING_MS = 1_000
const DRAINING_BYTES_MAX = 64 * 1024
const LOST_AT_ONCE_MS = 1_000
const lossCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/**
 * One request and its response: undici's handler on one side, an async iterable of buffers on the other. Reading slowly
 * pauses the socket. One timer serves connect, first-token, idle and total limit: data only moves a timestamp, and the
 * timer looks at it when it fires.
 */
export class UpstreamExchange implements Dispatcher.DispatchHandler {
  status = 0
  headers: ResponseHeaders = {}
  /** Resolves with the response headers; rejects with UpstreamFailure. */
  readonly headersArrived: Promise<void>
  /** The connection was lost as soon as the request was sent, before any byte of a response: it may have been closing already. */
  lostAtOnce = false

  readonly #timeouts: Timeouts
  readonly #stream: boolean
  readonly #signal: AbortSignal
  readonly #totalDeadlineMs: number
  readonly #onAbort = () => this.#fail(new UpstreamFailure('cancelled', 'The client gave up.'))
  #headersDone = Promise.withResolvers<void>()
  #controller: Dispatcher.DispatchController | null = null
  #phase: Phase = 'connecting'
  #phaseStartMs = performance.now()
  #lastDataMs = 0
  #timer: NodeJS.Timeout
  #timerDeadlineMs: number
  #queue: Buffer[] = []
  #queuedBytes = 0
  #bodyBytes = 0
  #ended = false
  #failure: UpstreamFailure | null = null
  #reader: PromiseWithResolvers<IteratorResult<Buffer, undefined>> | null = null

  /** `remainingMs` bounds the whole exchange together with the endpoint's own total limit. */
  constructor(timeouts: Timeouts, stream: boolean, remainingMs: number, signal: AbortSignal) {
    this.#timeouts = timeouts
    this.#stream = stream
    this.#signal = signal
    this.#totalDeadlineMs = this.#phaseStartMs + Math.min(timeouts.totalMs, remainingMs)
    this.headersArrived = this.#headersDone.promise
    this.headersArrived.catch(() => {})
    this.#timerDeadlineMs = this.#deadlineMs()
    this.#timer = setTimeout(() => this.#onTimer(), this.#timerDeadlineMs - this.#phaseStartMs)
    signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  /** The body as it arrives. May be iterated once. Throws UpstreamFailure. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer, undefined> {
    return { next: () => this.#next() }
  }

  /** The whole body as text. Throws UpstreamFailure. */
  async text(): Promise<string> {
    const pieces: Buffer[] = []
    for await (const piece of this) pieces.push(piece)
    return pieces.length === 1 ? pieces[0]!.toString('utf8') : Buffer.concat(pieces).toString('utf8')
  }

  /** As much of an error's body as can be had: it explains the status, but the status alone decides enough. */
  async errorText(): Promise<string> {
    const pieces: Buffer[] = []
    let bytes = 0
    try {
      for await (const piece of this) {
        pieces.push(piece)
        bytes += piece.length
        if (bytes > ERROR_BYTES_MAX) break
      }
    } catch (failure) {
      if (this.#signal.aborted) throw failure
    }
    return Buffer.concat(pieces).toString('utf8', 0, ERROR_BYTES_MAX)
  }

  /** Content has arrived: from now on the idle limit counts instead of the first-token limit. */
  contentStarted(): void {
    if (this.#phase === 'waiting') this.#enter('streaming')
  }

  /** The answer is whole: only its usage report is still waited for, and not for long. */
  answerComplete(): void {
    if (this.#phase === 'waiting' || this.#phase === 'streaming') this.#enter('completing')
  }

  /** Nothing more is wanted. The rest passes unseen, so that the connection can be used again, or is cut off after a second. */
  release(): void {
    if (this.#phase === 'closed') return
    if (this.#ended || this.#failure) {
      this.#close()
      return
    }
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#enter('draining')
    this.#bodyBytes = 0
    this.#queue = []
    this.#controller?.resume()
  }

  /** Nothing more is wanted, and the upstream is to stop working on it. */
  abort(): void {
    this.#fail(new UpstreamFailure('cancelled', 'The answer is no longer wanted.'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#failure) controller.abort(this.#failure)
    else this.#enter('waiting')
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (status < 200) return
    this.status = status
    this.headers = headers
    this.#headersDone.resolve()
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Buffer): void {
    this.#lastDataMs = performance.now()
    this.#bodyBytes += piece.length
    if (this.#phase === 'draining') {
      if (this.#bodyBytes > DRAINING_BYTES_MAX) this.abort()
      return
    }
    const bytesMax = this.#stream ? STREAM_BYTES_MAX : WHOLE_BYTES_MAX
    if (this.#bodyBytes > bytesMax) {
      this.#fail(new UpstreamFailure('malformed', `The answer is larger than ${bytesMax} bytes.`))
    } else if (this.#reader) {
      this.#reader.resolve({ value: piece, done: false })
      this.#reader = null
    } else {
      this.#queue.push(piece)
      this.#queuedBytes += piece.length
      if (this.#queuedBytes > QUEUE_BYTES_MAX) controller.pause()
    }
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#reader?.resolve({ value: undefined, done: true })
    this.#reader = null
    this.#close()
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#failure) return
    this.lostAtOnce = this.#phase === 'waiting' && this.status === 0 && this.#isLoss(error)
    this.#fail(failureOfException(error, this.#phase !== 'connecting'))
  }

  #next(): Promise<IteratorResult<Buffer, undefined>> {
    const piece = this.#queue.shift()
    if (piece !== undefined) {
      this.#queuedBytes -= piece.length
      if (this.#queuedBytes === 0 && this.#controller?.paused) {
        this.#lastDataMs = performance.now()
        this.#controller.resume()
      }
      return Promise.resolve({ value: piece, done: false })
    }
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    this.#reader = Promise.withResolvers()
    return this.#reader.promise
  }

  #fail(failure: UpstreamFailure): void {
    if (this.#failure || this.#phase === 'closed') return
    this.#failure = failure
    this.#close()
    this.#controller?.abort(failure)
    this.#headersDone.reject(failure)
    this.#reader?.reject(failure)
    this.#reader = null
  }

  #close(): void {
    this.#phase = 'closed'
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#onAbort)
  }

  #enter(phase: Phase): void {
    this.#phase = phase
    this.#phaseStartMs = performance.now()
    this.#lastDataMs = this.#phaseStartMs
    if (this.#deadlineMs() < this.#timerDeadlineMs) this.#rearm()
  }

  #deadlineMs(): number {
    return Math.min(this.#totalDeadlineMs, this.#phaseDeadlineMs())
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

  #onTimer(): void {
    const nowMs = performance.now()
    // Pieces that wait here were sent in time: it is us who are slow.
    if (this.#phase === 'streaming' && this.#queue.length > 0) this.#lastDataMs = nowMs
    // Timers may fire a fraction of a millisecond early.
    if (this.#deadlineMs() - nowMs < 1) this.#fail(this.#timedOut())
    else this.#rearm()
  }

  #rearm(): void {
    clearTimeout(this.#timer)
    this.#timerDeadlineMs = this.#deadlineMs()
    this.#timer = setTimeout(() => this.#onTimer(), Math.max(0, this.#timerDeadlineMs - performance.now()))
  }

  /** undici does not say whether a connection was used before, so time must: a closing one is noticed within a round trip. */
  #isLoss(error: Error & { code?: string }): boolean {
    return lossCodes.has(error.code ?? '') && performance.now() - this.#phaseStartMs < LOST_AT_ONCE_MS
  }

  #timedOut(): UpstreamFailure {
    switch (this.#phase) {
      case 'connecting':
        return new UpstreamFailure('connect_failed', 'No connection within the connect limit.')
      case 'waiting':
        return new UpstreamFailure('first_token_timeout', 'No answer within the first-token or total limit.')
      default:
        return new UpstreamFailure(
          'server_error',
          'The stream stood still longer than the idle limit, or took too long.',
        )
    }
  }
}
