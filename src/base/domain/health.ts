import type { AttemptFailure } from './attempt-failure.ts'
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
 * The counts that other nodes reported are ignored when they are older, so that they end with the connection to
 * PostgreSQL.
 */
export const OTHERS_AGE_MS_MAX = 15_000

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
   * `LATENCY_SAMPLES_MIN` answers in ten minutes.
   */
  predictMs(offerId: string, request: PredictedRequest): number | null
  /**
   * The time to the first content that 95% of the streams of the last minutes stayed below, for a prompt of this
   * length. Null with too few of them.
   */
  firstTokenP95Ms(offerId: string, inputTokens: number): number | null
  /** Returns the number of attempts between `beginRequest` and `endRequest`. */
  inFlight(offerId: string): number
  /** Returns all figures that order the offers, at one moment. */
  read(offerId: string, request: PredictedRequest, limits: ConcurrencyLimits): OfferReading
}

/** An offer as routing sees it. */
export interface OfferReading {
  readonly state: OfferState
  /** See `predictMs`. */
  readonly predictedMs: number | null
  /** The prediction is known, and an answer of the last minute was measured. */
  readonly isMeasured: boolean
  readonly inFlight: number
  /**
   * The part of its usual traffic that the offer should get, 0 to 1: less than 1 for a minute after an ejection, and 0
   * while its server has as many requests as it can take, or answers none of those that wait.
   */
  readonly share: number
}

/** A request for which latency is predicted. */
export interface PredictedRequest {
  readonly stream: boolean
  /** The most that this request may generate; null without a limit. */
  readonly outputTokens: number | null
  /** The likely length of the prompt. Absent: as long as the others. */
  readonly inputTokens?: number
}

/** How many requests at once a server takes. */
export interface ConcurrencyLimits {
  /** The gateway finds the limit by itself: it rises with answers and falls with refusals and time-outs. */
  readonly isLearned: boolean
  /** The declared limit. Undefined: none. */
  readonly capacity: number | undefined
}

/**
 * One answered attempt. Times are in milliseconds since it was sent. A stream that has not ended has no
 * `totalMs`.
 */
export interface SuccessSample {
  readonly firstTokenMs: number
  readonly totalMs?: number | undefined
  readonly outputTokens?: number | undefined
  /** The likely length of the prompt. */
  readonly inputTokens?: number | undefined
}

/**
 * Records the attempts of dispatch. Each attempt calls `beginRequest`, then `recordSuccess` or
 * `recordFailure`, then `endRequest` in a finally. `sentMs` is the monotonic time when the attempt began; it
 * defaults to now.
 */
export interface Health extends HealthView {
  beginRequest(offerId: string): void
  /** Notes the first content of a stream, between `beginRequest` and `endRequest`. */
  noteContent(offerId: string): void
  /** `hadContent`: `noteContent` was called for this request. */
  endRequest(offerId: string, hadContent?: boolean): void
  recordSuccess(offerId: string, sample: SuccessSample, sentMs?: number): void
  /**
   * Ignores faults of the caller (`request_rejected`, `not_sent`, `cancelled`). `retryAfterS` is the pause
   * that the upstream asked for. `failure` is shown to the operator.
   */
  recordFailure(
    offerId: string,
    outcome: Exclude<AttemptOutcome, 'answered'>,
    retryAfterS?: number,
    sentMs?: number,
    failure?: AttemptFailure,
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
