import type { AttemptOutcome } from './handoff.ts'

/**
 * `open`: healthy, takes requests. (Unlike an open circuit breaker. The word is part of the API: a quote
 * shows it as `state`.) `probing`: the ejection is over and one real request may try the offer; while that request
 * runs, all others see `ejected`. `ejected`: takes no requests, because of failures, a refused credential, or a
 * pause that the server asked for.
 */
export type OfferState = 'open' | 'probing' | 'ejected'

/** A latency prediction needs this many answers. */
export const LATENCY_SAMPLES_MIN = 5
/** Answers older than this do not count for a latency prediction. */
export const LATENCY_SAMPLE_AGE_MS_MAX = 600_000

/**
 * The health of offers, as routing reads it. Reading changes nothing. An offer that was never tried is open and
 * unmeasured.
 */
export interface HealthView {
  state(offerId: string): OfferState
  /** Milliseconds until an ejected offer may be tried again; 0 when it is not ejected. */
  ejectedForMs(offerId: string): number
  /**
   * Predicts the milliseconds to the first content (`stream`) or to the whole answer. Null with fewer than
   * `LATENCY_SAMPLES_MIN` answers in ten minutes. `outputTokens`: the most that this request may generate, or
   * null without a limit.
   */
  predictMs(offerId: string, request: { stream: boolean; outputTokens: number | null }): number | null
  /** Returns the number of attempts between `beginRequest` and `endRequest`. */
  inFlight(offerId: string): number
}

/**
 * One answered attempt. Times are in milliseconds since it was sent. A stream that has not ended has no
 * `totalMs`.
 */
export interface SuccessSample {
  readonly firstTokenMs: number
  readonly totalMs?: number | undefined
  readonly outputTokens?: number | undefined
}

/**
 * Records the attempts of dispatch. Each attempt calls `beginRequest`, then `recordSuccess` or
 * `recordFailure`, then `endRequest` in a finally. `sentMs` is the monotonic time when the attempt began; it
 * defaults to now.
 */
export interface Health extends HealthView {
  beginRequest(offerId: string): void
  endRequest(offerId: string): void
  recordSuccess(offerId: string, sample: SuccessSample, sentMs?: number): void
  /**
   * Ignores faults of the caller (`request_rejected`, `not_sent`, `cancelled`). `retryAfterS` is the pause
   * that the upstream asked for.
   */
  recordFailure(
    offerId: string,
    outcome: Exclude<AttemptOutcome, 'answered'>,
    retryAfterS?: number,
    sentMs?: number,
  ): void
}

/**
 * The health of offers for each customer: faults that a customer's own requests may have caused do not eject an
 * offer for other customers.
 */
export interface CustomerBreakers {
  /** Returns the health of offers for this customer. */
  of(customerId: string): Health
}
