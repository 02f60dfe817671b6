import { ApiError, MEMORY_USED_UP } from '../domain/errors.ts'
import type { Attempt } from '../domain/handoff.ts'
import { type Cancelled, Unserved, type UpstreamFailure } from '../domain/upstream-failure.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'

// The errors with which dispatch ends without an answer.

export function cancelledError({ reason }: Cancelled, signal: CancelSignal, attempts: readonly Attempt[]): Unserved {
  if (reason === 'memory_used_up') return new Unserved('overloaded', attempts, { message: MEMORY_USED_UP })
  return abortedError(signal, attempts)
}

/**
 * Returns the error of an aborted request. A client that left does not see it; a gateway that is shutting down
 * reports the shutdown.
 */
export function abortedError({ reason }: CancelSignal, attempts: readonly Attempt[]): Unserved {
  if (!(reason instanceof ApiError)) return new Unserved('upstream_unavailable', attempts)
  return new Unserved(reason.code, attempts, { retryAfterS: reason.retryAfterS })
}

export function rejectedError({ rejection }: UpstreamFailure, attempts: readonly Attempt[]): Unserved {
  const code = rejection?.code === 'context_length_exceeded' ? 'context_length_exceeded' : 'upstream_rejected'
  const reason = rejection?.message
  const message = reason ? `The model server refused the request: ${reason}` : undefined
  return new Unserved(code, attempts, { message, param: rejection?.param ?? undefined })
}

export function failedError(attempts: readonly Attempt[], failures: readonly UpstreamFailure[]): Unserved {
  if (attempts.length === 0) return new Unserved('upstream_unavailable', attempts)
  const allBusy = failures.every(failure => failure.outcome === 'busy')
  const waitsS = failures.flatMap(failure => failure.retryAfterS ?? [])
  const retryAfterS = allBusy && waitsS.length > 0 ? Math.max(1, Math.min(...waitsS)) : undefined
  return new Unserved('all_hosters_failed', attempts, {
    retryAfterS,
    reasons: failures.map(({ message }) => message),
    upstreamMessages: failures.flatMap(({ upstreamMessage }) => upstreamMessage ?? []),
  })
}
