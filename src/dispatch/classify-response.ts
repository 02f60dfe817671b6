import { failureOfError } from '../dialects/chat/failure-of-error.ts'
import { readUpstreamError } from '../dialects/chat/upstream-error.ts'
import { parseUpstreamJson } from '../dialects/json/parse-upstream-json.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import type { ResponseHead } from '../upstreams/response-head.ts'

const RETRY_AFTER_S_MAX = 86_400

/** What a status other than 200 means for the attempt. `body` is as much of the body as was read. */
export function failureOfResponse(head: ResponseHead, body: string): UpstreamFailure {
  const { status } = head
  if (status < 300) return new UpstreamFailure('malformed', `The upstream answered ${status}, which carries no answer.`)
  if (status < 400)
    return new UpstreamFailure('server_error', `The upstream redirects (${status}); that is not followed.`)
  if (status === 403 && isFromFilter(body, head))
    return new UpstreamFailure('server_error', '403 of a filter before it')
  if (status === 400 && isOfProxy(body)) return new UpstreamFailure('server_error', '400 of a proxy before it')
  const error = readUpstreamError(jsonOrText(body, head), true)
  return failureOfError(status, error ?? { message: '', type: null, param: null, code: null }, retryAfterS(head))
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

/** Throws UpstreamFailure for bodies that cannot be an answer. */
export function rejectUnreadable(head: ResponseHead): void {
  const encoding = head.contentEncoding
  if (encoding !== '' && encoding !== 'identity') {
    throw new UpstreamFailure(
      'malformed',
      `The upstream compressed its answer (${encoding}) although nobody asked for it.`,
    )
  }
  if (isOfType(head, 'html')) throw new UpstreamFailure('malformed', 'The upstream answered with HTML.')
}

/**
 * A firewall before the server took the prompt for an attack: SQL and shell commands are enough for that (openwork issue 3419, OpenHands issue 4480).
 * That says nothing of our key, and each such prompt would eject server after server as if it did. Another server may have no firewall.
 */
function isFromFilter(body: string, head: ResponseHead): boolean {
  return isPage(body, head) || /^error code: 1\d{3}\s*$/.test(body)
}

/**
 * What we send is the same HTTP for every customer, so a proxy that takes offence at it has been configured for something else: `http` to a port of `https`,
 * as nginx, Apache and servers in Go answer to, or a certificate that it wants of us.
 */
function isOfProxy(body: string): boolean {
  if (!body.trimStart().startsWith('<')) return body.startsWith('Client sent an HTTP request to an HTTPS server')
  // The foot of nginx's pages, and of those that were made after it.
  return body.includes('<hr><center>') || body.includes('plain HTTP to an SSL-enabled')
}

function isPage(body: string, head: ResponseHead): boolean {
  return isOfType(head, 'html') || body.trimStart().startsWith('<')
}

function jsonOrText(body: string, head: ResponseHead): unknown {
  try {
    return parseUpstreamJson(body)
  } catch {
    // Neither an error page of a proxy in between nor what is compressed says anything that a customer could use.
    return isPage(body, head) || isCompressed(body, head) ? '' : body
  }
}

/** Also where nobody says so: gzip begins with these two bytes, the second of which is no UTF-8 (claude-relay-service pull request 1039). */
function isCompressed(body: string, { contentEncoding }: ResponseHead): boolean {
  return (contentEncoding !== '' && contentEncoding !== 'identity') || body.startsWith('\u001f\ufffd')
}
