import { UpstreamFailure } from '../domain/upstream-failure.ts'
import { failureOfError, readUpstreamError } from '../wire/upstream-error.ts'

type HeaderValues = Readonly<Record<string, string | string[] | undefined>>

const RETRY_AFTER_S_MAX = 86_400

/** What a status other than 200 means for the attempt. `body` is as much of the body as was read. */
export function failureOfResponse(status: number, headers: HeaderValues, body: string): UpstreamFailure {
  if (status < 300) return new UpstreamFailure('malformed', `The upstream answered ${status}, which carries no answer.`)
  if (status < 400)
    return new UpstreamFailure('server_error', `The upstream redirects (${status}); that is not followed.`)
  const error = readUpstreamError(jsonOrText(body, headers), true)
  return failureOfError(status, error ?? { message: '', type: null, param: null, code: null }, retryAfterS(headers))
}

/** What an exception of the HTTP client means. `connected` says whether the request had already been handed to a connection. */
export function failureOfException(error: unknown, connected: boolean): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error
  const code = codeOf(error)
  const summary = `${code}: ${error instanceof Error ? error.message : String(error)}`
  if (!connected) return new UpstreamFailure('connect_failed', summary, { cause: error })
  // "Invalid EOF state": the connection ended inside a chunked body, which is a lost connection and not bad HTTP.
  const broken =
    (code === 'HTTPParserError' && !/EOF/.test(summary)) ||
    code.startsWith('HPE_') ||
    code === 'UND_ERR_HEADERS_OVERFLOW'
  return new UpstreamFailure(broken ? 'malformed' : 'server_error', summary, { cause: error })
}

/** Seconds from `retry-after-ms`, or `retry-after` as seconds or date; undefined when absent or unreadable. Rounds up. */
export function retryAfterS(headers: HeaderValues, nowEpochMs = Date.now()): number | undefined {
  const ms = Number(first(headers['retry-after-ms']) ?? Number.NaN)
  if (ms >= 0) return atMostADay(ms / 1000)
  const value = first(headers['retry-after'])
  if (value === undefined) return undefined
  const seconds = Number(value)
  if (seconds >= 0) return atMostADay(seconds)
  const dateMs = Date.parse(value)
  return Number.isNaN(dateMs) || dateMs < nowEpochMs ? undefined : atMostADay((dateMs - nowEpochMs) / 1000)
}

function atMostADay(seconds: number): number {
  return Math.min(Math.ceil(seconds), RETRY_AFTER_S_MAX)
}

function jsonOrText(body: string, headers: HeaderValues): unknown {
  try {
    return JSON.parse(body)
  } catch {
    // An error page of a proxy in between says nothing that a customer could use.
    return /html/i.test(first(headers['content-type']) ?? '') || body.trimStart().startsWith('<') ? '' : body
  }
}

function first(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : error instanceof Error ? error.name : 'unknown'
}
