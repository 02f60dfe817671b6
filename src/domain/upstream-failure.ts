import type { AttemptOutcome } from './handoff.ts'

/** An upstream did not do its part. Before the first content it leads to the next offer, after it to an error chunk. */
export class UpstreamFailure extends Error {
  readonly outcome: Exclude<AttemptOutcome, 'answered'>
  /** Seconds the upstream asked us to wait (429, 503). */
  readonly retryAfterS: number | undefined
  /** For `request_rejected`: what the upstream said was wrong with the request, safe to show. */
  readonly rejection: { message: string; param: string | null; code: string | null } | undefined

  constructor(
    outcome: Exclude<AttemptOutcome, 'answered'>,
    message: string,
    more: { retryAfterS?: number | undefined; rejection?: UpstreamFailure['rejection']; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause })
    this.name = 'UpstreamFailure'
    this.outcome = outcome
    this.retryAfterS = more.retryAfterS
    this.rejection = more.rejection
  }
}
