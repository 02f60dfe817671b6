import { Cancelled, UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { type LinkedItem, LinkedSet } from '../../base/runtime/collections.ts'
import { endOfTurn } from '../../base/runtime/scheduler.ts'
import type { ExchangeLimits } from './exchange-request.ts'

/** The phase of an exchange. Each phase has a separate time limit. */
export type Phase =
  | 'connecting'
  | 'connected'
  | 'waiting'
  | 'thinking'
  | 'receiving'
  | 'completing'
  | 'draining'
  | 'closed'

/** The longest wait for the usage report of a finished answer, or for the body of an error. */
const COMPLETING_MS = 3_000
/**
 * The longest wait for the rest of an unwanted response, which is read only so that its connection can be
 * reused.
 */
const DRAINING_MS = 1_000

/**
 * Enforces the time limits of one exchange: connect, first byte, thinking, idle and total. Keeps timestamps and starts
 * no timer; `Deadlines` polls it, so data only moves a timestamp.
 */
export class ExchangeTimer {
  readonly #limits: ExchangeLimits
  readonly #totalDeadlineMs: number
  #phase: Phase = 'connecting'
  #phaseStartMs = performance.now()
  #lastDataMs = 0
  /** Total length of the finished pauses. */
  #pausedMs = 0
  /** performance.now() at the start of the current pause; null while the upstream may send. */
  #pausedSinceMs: number | null = null

  constructor(limits: ExchangeLimits) {
    this.#limits = limits
    this.#totalDeadlineMs = this.#phaseStartMs + limits.totalMs
  }

  get phase(): Phase {
    return this.#phase
  }

  get phaseElapsedMs(): number {
    return performance.now() - this.#phaseStartMs
  }

  enter(phase: Exclude<Phase, 'closed'>): void {
    this.#phase = phase
    this.#phaseStartMs = performance.now()
    this.#lastDataMs = this.#phaseStartMs
  }

  close(): void {
    this.#phase = 'closed'
  }

  /** Restarts the idle limit when bytes of the response arrive. */
  onData(): void {
    this.#lastDataMs = performance.now()
  }

  /** Called when the upstream must wait for a slow reader. */
  onPause(): void {
    this.#pausedSinceMs = performance.now()
  }

  onResume(): void {
    if (this.#pausedSinceMs === null) return
    this.#lastDataMs = performance.now()
    this.#pausedMs += this.#lastDataMs - this.#pausedSinceMs
    this.#pausedSinceMs = null
  }

  /**
   * Returns the failure for an exceeded limit, or null. `nowMs` is performance.now(). `isReaderBehind`:
   * received bytes are waiting for the reader.
   */
  check(nowMs: number, isReaderBehind: boolean): UpstreamFailure | null {
    // The upstream sent these bytes in time; the gateway or its client is slow.
    if ((this.#phase === 'receiving' || this.#phase === 'thinking') && isReaderBehind) this.#lastDataMs = nowMs
    return this.#deadlineMs(nowMs) <= nowMs ? this.#timedOut(nowMs) : null
  }

  /**
   * The total limit does not run while the upstream is paused, for at most the length of that limit.
   * Otherwise a client that reads slowly for part of the time would get nearly all of a long answer for free,
   * and the upstream would be blamed.
   */
  #deadlineMs(nowMs: number): number {
    return Math.min(
      this.#totalDeadlineMs + Math.min(this.#pausedUntil(nowMs), this.#limits.totalMs),
      this.#phaseDeadlineMs(),
    )
  }

  /**
   * Returns the total time that the upstream was paused. Whether it is paused at the moment of a time limit
   * proves nothing: a quick reader is behind for an instant after any burst, and a slow reader may have just
   * caught up.
   */
  #pausedUntil(nowMs: number): number {
    return this.#pausedMs + (this.#pausedSinceMs === null ? 0 : nowMs - this.#pausedSinceMs)
  }

  #phaseDeadlineMs(): number {
    switch (this.#phase) {
      case 'connecting':
        return this.#phaseStartMs + this.#limits.connectMs
      // The request is sent in one of the next turns of the event loop, which only this process can delay.
      case 'connected':
        return Number.POSITIVE_INFINITY
      case 'waiting':
        return this.#phaseStartMs + this.#limits.firstByteMs
      case 'thinking':
        return this.#lastDataMs + Math.max(this.#limits.thinkingMs ?? 0, this.#limits.idleMs)
      case 'receiving':
        return this.#lastDataMs + this.#limits.idleMs
      case 'completing':
        return this.#phaseStartMs + Math.min(this.#limits.idleMs, COMPLETING_MS)
      case 'draining':
        return this.#phaseStartMs + DRAINING_MS
      case 'closed':
        return Number.POSITIVE_INFINITY
    }
  }

  #timedOut(nowMs: number): UpstreamFailure {
    switch (this.#phase) {
      case 'connecting':
        return new UpstreamFailure('connect_failed', 'No connection within the connect limit.')
      case 'waiting':
        return new UpstreamFailure(
          'first_token_timeout',
          'No answer within the limit of the first token, or half of the time that the request had left.',
        )
      default:
        // This is the upstream's fault even after a slow reader: the limit does not run while received bytes
        // wait.
        if (this.#phaseDeadlineMs() <= nowMs) {
          return new UpstreamFailure('server_error', 'The upstream sent nothing within the idle limit.')
        }
        return this.#pausedUntil(nowMs) >= this.#limits.totalMs
          ? new Cancelled('read_too_slowly', true)
          : new UpstreamFailure('server_error', 'The answer took longer than the total limit.')
    }
  }
}

/** Something with a time limit, such as an exchange. */
export interface TimeLimited extends LinkedItem<TimeLimited> {
  /** Acts on a time limit that is exceeded. `nowMs` is performance.now(). */
  checkDeadline(nowMs: number): void
}

/** Time limits are seconds long, so enforcing them 0.1 s late is harmless. */
const CHECK_INTERVAL_MS = 100

/**
 * Enforces the time limits of all exchanges with one timer. A timer per exchange cost
 * 1.5 us, and nearly all of them were cancelled. Keeps no timer while nothing is watched.
 */
export class Deadlines {
  readonly #watched = new LinkedSet<TimeLimited>()
  #timer: NodeJS.Timeout | undefined

  add(item: TimeLimited): void {
    this.#watched.add(item)
    // After a stall of this process the timer fires before waiting data is read. Checking at the end of the
    // turn avoids blaming the server.
    this.#timer ??= setInterval(() => endOfTurn(() => this.#check()), CHECK_INTERVAL_MS)
  }

  remove(item: TimeLimited): void {
    this.#watched.remove(item)
  }

  /** Stops the timer here and not in `remove`: a busy gateway would otherwise start a timer for each request. */
  #check(): void {
    const nowMs = performance.now()
    for (const item of this.#watched) item.checkDeadline(nowMs)
    if (this.#watched.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
