import { ApiError, type ErrorCode } from './errors.ts'
import type { Attempt, AttemptOutcome } from './handoff.ts'

/**
 * An upstream did not do its part. Before the first content it leads to the next offer, after it to an error chunk. The message goes into the log, so
 * it has no words of the upstream's.
 */
export class UpstreamFailure extends Error {
  readonly outcome: Exclude<AttemptOutcome, 'answered'>
  /** Seconds the upstream asked us to wait (429, 503). */
  readonly retryAfterS: number | undefined
  /** For `request_rejected`: what the upstream says was wrong with the request, safe to show. */
  readonly rejection: { message: string; param: string | null; code: string | null } | undefined
  /** The upstream's error text, without addresses and keys. It may quote the prompt or the answer. */
  readonly upstreamMessage: string | undefined

  constructor(
    outcome: Exclude<AttemptOutcome, 'answered'>,
    message: string,
    more: {
      retryAfterS?: number | undefined
      rejection?: UpstreamFailure['rejection']
      upstreamMessage?: string | undefined
      cause?: unknown
    } = {},
  ) {
    super(message, { cause: more.cause })
    this.name = 'UpstreamFailure'
    this.outcome = outcome
    this.retryAfterS = more.retryAfterS
    this.rejection = more.rejection
    this.upstreamMessage = more.upstreamMessage || undefined
  }
}

/** Why an exchange was ended by somebody on our side. */
export type CancelReason =
  | 'client_left'
  /** The drain limit passed, or the connections were closed. */
  | 'gateway_stopping'
  /** The total limit passed, and it was the reader who took so long. */
  | 'read_too_slowly'
  /** By whoever read it, who hears no more of it. */
  | 'not_wanted'

/** No failure of the upstream: the exchange was ended here, and this says why. */
export class Cancelled extends UpstreamFailure {
  readonly reason: CancelReason

  /** `isSent`: the server may have seen a part of the request. */
  constructor(reason: CancelReason, isSent: boolean) {
    super(isSent ? 'cancelled' : 'not_sent', messages[reason])
    this.reason = reason
  }
}

const messages: Record<CancelReason, string> = {
  client_left: 'The client gave up.',
  gateway_stopping: 'The gateway is stopping.',
  read_too_slowly: 'The answer was read too slowly for the total limit.',
  not_wanted: 'The answer is no longer wanted.',
}

/** Whether the client ended the request. A gateway that shuts down aborts with the ApiError that its clients get. */
export function hasClientLeft({ aborted, reason }: { readonly aborted: boolean; readonly reason: unknown }): boolean {
  return aborted && !(reason instanceof ApiError)
}

/** Dispatch ended without an answer. Carries the attempts, because the usage row records them and the caller must not see them. */
export class Unserved extends ApiError {
  readonly attempts: readonly Attempt[]
  /** Error texts of the servers that were tried; see UpstreamFailure. */
  readonly upstreamMessages: readonly string[]

  constructor(
    code: ErrorCode,
    attempts: readonly Attempt[],
    detail: {
      message?: string | undefined
      param?: string | undefined
      retryAfterS?: number | undefined
      reasons?: readonly string[]
      upstreamMessages?: readonly string[]
    } = {},
  ) {
    super(code, { ...detail, internal: { attempts, reasons: detail.reasons } })
    this.name = 'Unserved'
    this.attempts = attempts
    this.upstreamMessages = detail.upstreamMessages ?? []
  }
}
