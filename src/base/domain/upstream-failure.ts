import { ApiError, type ErrorCode, type ErrorFacts } from './errors.ts'
import type { Attempt, AttemptOutcome } from './handoff.ts'

/**
 * A failure of an upstream. Before the first content, dispatch tries the next offer; after it, the client gets an
 * error chunk. The message is logged, so it contains no text from the upstream.
 */
export class UpstreamFailure extends Error {
  readonly outcome: Exclude<AttemptOutcome, 'answered'>
  /** The pause in seconds that the upstream asked for (429, 503). */
  readonly retryAfterS: number | undefined
  /** For `request_rejected`: the upstream's explanation, safe to show to the client. */
  readonly rejection: { message: string; param: string | null; code: string | null } | undefined
  /** The HTTP status of an error; null if the upstream gave none. */
  readonly status: number | null
  /** The upstream's error text, without addresses and keys. It may quote the prompt or the answer. */
  readonly upstreamMessage: string | undefined

  constructor(
    outcome: Exclude<AttemptOutcome, 'answered'>,
    message: string,
    more: {
      retryAfterS?: number | undefined
      rejection?: UpstreamFailure['rejection']
      status?: number | null
      upstreamMessage?: string | undefined
      cause?: unknown
    } = {},
  ) {
    super(message, { cause: more.cause })
    this.name = 'UpstreamFailure'
    this.outcome = outcome
    this.retryAfterS = more.retryAfterS
    this.rejection = more.rejection
    this.status = more.status ?? null
    this.upstreamMessage = more.upstreamMessage || undefined
  }
}

/** Why the gateway ended an exchange with an upstream. */
export type CancelReason =
  | 'client_left'
  /** The machine has no descriptor, port or memory for another connection. */
  | 'connections_used_up'
  /** The drain limit passed, or the connections were closed. */
  | 'gateway_stopping'
  /** The total limit passed because the client read too slowly. */
  | 'read_too_slowly'
  /** The reader of the answer called `leave`. */
  | 'not_wanted'
  /** The request bodies and answers of this node have reached their limit. */
  | 'memory_used_up'

/** The gateway ended the exchange with an upstream, which is not the upstream's fault. */
export class Cancelled extends UpstreamFailure {
  readonly reason: CancelReason

  /** `isSent`: the server may have seen a part of the request. */
  constructor(reason: CancelReason, isSent: boolean) {
    super(isSent ? 'cancelled' : 'not_sent', messages[reason])
    this.reason = reason
  }
}

const messages: Record<CancelReason, string> = {
  client_left: 'The client disconnected.',
  connections_used_up: 'This machine has no descriptor, port or memory for another connection.',
  gateway_stopping: 'The gateway is stopping.',
  read_too_slowly: 'The answer was read too slowly for the total limit.',
  not_wanted: 'The answer is no longer wanted.',
  memory_used_up: 'The gateway has no memory left for the answer.',
}

/**
 * Whether a request was aborted because its client left. During shutdown the gateway aborts with an ApiError,
 * which the client gets.
 */
export function hasClientLeft({ aborted, reason }: { readonly aborted: boolean; readonly reason: unknown }): boolean {
  return aborted && !(reason instanceof ApiError)
}

/** Dispatch ended without an answer. Carries the attempts for the usage row; the client must not see them. */
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
      shouldRetry?: true | undefined
      facts?: ErrorFacts | undefined
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
