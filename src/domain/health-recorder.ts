import type { AttemptOutcome } from './handoff.ts'

/** What dispatch tells about each attempt that was the upstream's to win or lose, once for each. */
export interface HealthRecorder {
  /** An answer was given. For a stream that the client left, only the first-token time is known. */
  recordSuccess(
    offerId: string,
    sample: { readonly firstTokenMs: number; readonly totalMs?: number; readonly outputTokens?: number },
  ): void
  /** The attempt failed by the upstream's fault or lack of capacity; never called for `request_rejected` or `cancelled`. */
  recordFailure(
    offerId: string,
    outcome: Exclude<AttemptOutcome, 'answered' | 'cancelled' | 'request_rejected'>,
    retryAfterS?: number,
  ): void
}
