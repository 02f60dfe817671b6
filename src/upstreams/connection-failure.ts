import { Cancelled, UpstreamFailure } from '../domain/upstream-failure.ts'
import { MalformedResponse } from './response-head.ts'

/**
 * Converts an exception of the HTTP client into an UpstreamFailure. `isSent`: whether sending the request had
 * begun.
 */
export function toUpstreamFailure(error: unknown, isSent: boolean): UpstreamFailure {
  if (error instanceof Cancelled) return new Cancelled(error.reason, isSent)
  if (error instanceof UpstreamFailure) return error
  const code = errorCode(error)
  const summary = `${code}: ${error instanceof Error ? error.message : String(error)}`
  if (!isSent) return new UpstreamFailure('connect_failed', summary, { cause: error })
  const outcome = error instanceof MalformedResponse ? 'malformed' : 'server_error'
  return new UpstreamFailure(outcome, summary, { cause: error })
}

function errorCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : error instanceof Error ? error.name : 'unknown'
}
