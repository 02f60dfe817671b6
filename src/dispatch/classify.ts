import { Cancelled, UpstreamFailure } from '../domain/upstream-failure.ts'
import { parseUpstreamJson } from '../wire/parse-upstream-json.ts'
import { failureOfError, readUpstreamError } from '../wire/upstream-error.ts'
import { MalformedResponse, type ResponseHead } from './response-parser.ts'

const RETRY_AFTER_S_MAX = 86_400

/** What a status other than 200 means for the attempt. `body` is as much of the body as was read. */
export function failureOfResponse(head: ResponseHead, body: string): UpstreamFailure {
  const { status } = head
  if (status < 300) return new UpstreamFailure('malformed', `The upstream answered ${status}, which carries no answer.`)
  if (status < 400)
    return new UpstreamFailure('server_error', `The upstream redirects (${status}); that is not followed.`)
  const error = readUpstreamError(jsonOrText(body, head), true)
  return failureOfError(status, error ?? { message: '', type: null, param: null, code: null }, retryAfterS(head))
}

/** What an exception of the HTTP client means. `connected` says whether the request had already been handed to a connection. */
export function failureOfException(error: unknown, connected: boolean): UpstreamFailure {
  if (error instanceof Cancelled) return new Cancelled(error.reason, connected)
  if (error instanceof UpstreamFailure) return error
  const code = codeOf(error)
  const summary = `${code}: ${error instanceof Error ? error.message : String(error)}`
  if (!connected) return new UpstreamFailure('connect_failed', summary, { cause: error })
  const outcome = error instanceof MalformedResponse ? 'malformed' : 'server_error'
  return new UpstreamFailure(outcome, summary, { cause: error })
}

/** Seconds from `retry-after-ms`, or `retry-after` as seconds or date; undefined when absent or unreadable. Rounds up. */
export function retryAfterS(head: ResponseHead, nowEpochMs = Date.now()): number | undefined {
  const ms = Number(head.retryAfterMs || Number.NaN)
  if (ms >= 0) return atMostADay(ms / 1000)
  const value = head.retryAfter
  if (value === '') return undefined
  const seconds = Number(value)
  if (seconds >= 0) return atMostADay(seconds)
  const dateMs = Date.parse(value)
  return Number.isNaN(dateMs) || dateMs < nowEpochMs ? undefined : atMostADay((dateMs - nowEpochMs) / 1000)
}

function atMostADay(seconds: number): number {
  return Math.min(Math.ceil(seconds), RETRY_AFTER_S_MAX)
}

/** Whether the content type speaks of `name`, in lower case. */
export function isOfType({ contentType }: ResponseHead, name: string): boolean {
  return contentType.toLowerCase().includes(name)
}

function jsonOrText(body: string, head: ResponseHead): unknown {
  try {
    return parseUpstreamJson(body)
  } catch {
    // An error page of a proxy in between says nothing that a customer could use.
    return isOfType(head, 'html') || body.trimStart().startsWith('<') ? '' : body
  }
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : error instanceof Error ? error.name : 'unknown'
}
