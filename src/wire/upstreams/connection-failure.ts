import { Cancelled, UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { MalformedResponse } from './response-parser.ts'

/** This machine has no descriptor, port or memory for another connection, which is not the server's fault. */
const exhaustedCodes = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM', 'EAI_MEMORY'])

/**
 * Converts an exception of the HTTP client into an UpstreamFailure. `isSent`: whether sending the request had
 * begun.
 */
export function toUpstreamFailure(error: unknown, isSent: boolean): UpstreamFailure {
  if (error instanceof Cancelled) return new Cancelled(error.reason, isSent)
  if (error instanceof UpstreamFailure) return error
  const code = errorCode(error)
  if (!isSent && exhaustedCodes.has(code)) return new Cancelled('connections_used_up', false)
  const summary = `${code}: ${error instanceof Error ? error.message : String(error)}`
  if (!isSent) return new UpstreamFailure('connect_failed', summary, { cause: error })
  const outcome = error instanceof MalformedResponse ? 'malformed' : 'server_error'
  return new UpstreamFailure(outcome, summary, { cause: error })
}

function errorCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : error instanceof Error ? error.name : 'unknown'
}

/** The failure of an answer that exceeds its limit. */
export function tooLarge(bytesMax: number): UpstreamFailure {
  return new UpstreamFailure('malformed', `The answer is larger than ${bytesMax} bytes.`)
}
