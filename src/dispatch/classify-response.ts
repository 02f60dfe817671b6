import { failureOfError } from '../dialects/chat/failure-of-error.ts'
import { readUpstreamError } from '../dialects/chat/upstream-error.ts'
import { parseUpstreamJson } from '../dialects/json/parse-json.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import { isOfType, type ResponseHead } from '../upstreams/response-head.ts'

const RETRY_AFTER_S_MAX = 86_400

/** Classifies a response whose status is not 200. `body`: the part of the body that was read. */
export function failureOfResponse(head: ResponseHead, body: string): UpstreamFailure {
  const { status } = head
  if (status < 300) return new UpstreamFailure('malformed', `The upstream answered ${status}, which carries no answer.`)
  if (status < 400)
    return new UpstreamFailure('server_error', `The upstream redirects (${status}); that is not followed.`)
  if (status === 403 && isFromFirewall(body, head))
    return new UpstreamFailure('server_error', 'a firewall in front of the server answered 403')
  if (status === 400 && isFromProxy(body))
    return new UpstreamFailure('server_error', 'a proxy in front of the server answered 400')
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

/**
 * A firewall in front of the server treated the prompt as an attack: SQL or shell commands are enough (openwork issue 3419, OpenHands issue 4480).
 * The gateway's key is not at fault; if it counted as refused, one such prompt would eject server after server. Another server may have no firewall.
 */
function isFromFirewall(body: string, head: ResponseHead): boolean {
  return isPage(body, head) || /^error code: 1\d{3}\s*$/.test(body)
}

/**
 * The gateway sends the same HTTP for every customer, so a proxy that rejects it is configured for something else: it expects `https` (nginx, Apache and
 * servers written in Go say so), or a client certificate.
 */
function isFromProxy(body: string): boolean {
  if (!body.trimStart().startsWith('<')) return body.startsWith('Client sent an HTTP request to an HTTPS server')
  // The footer of error pages of nginx and of servers that imitate it.
  return body.includes('<hr><center>') || body.includes('plain HTTP to an SSL-enabled')
}

function isPage(body: string, head: ResponseHead): boolean {
  return isOfType(head, 'html') || body.trimStart().startsWith('<')
}

function jsonOrText(body: string, head: ResponseHead): unknown {
  try {
    return parseUpstreamJson(body)
  } catch {
    // An HTML page of a proxy or a compressed body contains nothing that helps a customer.
    return isPage(body, head) || isCompressed(body, head) ? '' : body
  }
}

/** Also recognises gzip without a content-encoding, by its first two bytes; the second is not UTF-8 (claude-relay-service pull request 1039). */
function isCompressed(body: string, { contentEncoding }: ResponseHead): boolean {
  return (contentEncoding !== '' && contentEncoding !== 'identity') || body.startsWith('\u001f\ufffd')
}
