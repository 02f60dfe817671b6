import type { AttemptOutcome } from './handoff.ts'

/**
 * `open`: takes requests. `probing`: the ejection is over and one real request may try it; while that one runs, everybody else
 * sees `ejected`. `ejected`: keep away (failures, a refused credential, or it asked for a pause).
 */
export type OfferState = 'open' | 'probing' | 'ejected'

/** A prediction of latency needs this many answers. */
export const LATENCY_SAMPLES_MIN = 5
/** Each of them younger than this. */
export const LATENCY_SAMPLE_AGE_MS_MAX = 600_000

/** What choosing needs to know about the offers' recent past. Reading changes nothing. Unknown offers are open and unmeasured. */
export interface HealthView {
  state(offerId: string): OfferState
  /** Milliseconds until an ejected offer may be tried again; 0 when it is not ejected. The least bad one has the least. */
  ejectedForMs(offerId: string): number
  /**
   * Expected milliseconds to the first content (`stream`) or to the whole answer. Null when unknown: fewer than `LATENCY_SAMPLES_MIN` answers in ten minutes.
   * `outputTokens`: the most this request may generate, or null when it set no limit.
   */
  predictMs(offerId: string, request: { stream: boolean; outputTokens: number | null }): number | null
  /** Attempts between `beginRequest` and `endRequest`. */
  inFlight(offerId: string): number
}

/** One answered attempt, in milliseconds since it was sent. A stream whose end is not known yet leaves `totalMs` out. */
export interface SuccessSample {
  readonly firstTokenMs: number
  readonly totalMs?: number | undefined
  readonly outputTokens?: number | undefined
}

/**
 * What dispatch reports. Each attempt: `beginRequest`, then `recordSuccess` or `recordFailure`, then `endRequest` in a finally. `sentMs` is when the
 * attempt began, of the monotonic clock; now unless given.
 */
export interface Health extends HealthView {
  beginRequest(offerId: string): void
  endRequest(offerId: string): void
  recordSuccess(offerId: string, sample: SuccessSample, sentMs?: number): void
  /** The caller's faults (`request_rejected`, `not_sent`, `cancelled`) count for nothing. `retryAfterS` is the pause the upstream asked for. */
  recordFailure(
    offerId: string,
    outcome: Exclude<AttemptOutcome, 'answered'>,
    retryAfterS?: number,
    sentMs?: number,
  ): void
}

/** What one customer's requests meet may be of their own making: its faults keep a server from others only where others meet them too. */
export interface CustomerBreakers {
  /** As this customer finds it. */
  of(customerId: string): Health
}
