import { Cancelled, UpstreamFailure } from '../domain/upstream-failure.ts'
import { MalformedResponse } from './response-head.ts'

/** Turns an exception of the HTTP client into an UpstreamFailure. `connected`: the request had already been handed to a connection. */
export function failureOfException(error: unknown, connected: boolean): UpstreamFailure {
  if (error instanceof Cancelled) return new Cancelled(error.reason, connected)
  if (error instanceof UpstreamFailure) return error
  const code = codeOf(error)
  const summary = `${code}: ${error instanceof Error ? error.message : String(error)}`
  if (!connected) return new UpstreamFailure('connect_failed', summary, { cause: error })
  const outcome = error instanceof MalformedResponse ? 'malformed' : 'server_error'
  return new UpstreamFailure(outcome, summary, { cause: error })
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : error instanceof Error ? error.name : 'unknown'
}
