import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import { classifyError } from '../../wire/dialects/chat/classify-error.ts'
import { readUpstreamError } from '../../wire/dialects/chat/upstream-error.ts'
import { parseUpstreamJson } from '../../wire/dialects/json/parse-json.ts'
import { isOfType, type ResponseHead } from '../../wire/upstreams/response-parser.ts'

const RETRY_AFTER_S_MAX = 86_400

/** Classifies a response with a status other than 200. `body` is the part of the body that was read. */
export function classifyResponse(head: ResponseHead, body: string): UpstreamFailure {
  const { status } = head
  if (status < 300)
    return new UpstreamFailure('malformed', `The upstream answered ${status}, a status without a completion.`, {
      status,
    })
  if (status < 400)
    return new UpstreamFailure(
      'server_error',
      `The upstream answered with a redirect (${status}), which is not followed.`,
      { status },
    )
  if (status === 403 && isFromFirewall(body, head))
    return new UpstreamFailure('server_error', 'a firewall in front of the server answered 403', { status })
  if (status === 400 && isFromProxy(body))
    return new UpstreamFailure('server_error', 'a proxy in front of the server answered 400', { status })
  const answered = jsonOrText(body, head)
  const error = readUpstreamError(answered, true)
  const waitS = retryAfterS(head) ?? retryInfoS(answered)
  return classifyError(status, error ?? { message: '', type: null, param: null, code: null }, waitS)
}

/**
 * Returns the seconds of `retry-after-ms`, or of `retry-after` as seconds or date, rounded up. Undefined when
 * absent or unreadable.
 */
export function retryAfterS(head: ResponseHead, nowEpochMs = Date.now()): number | undefined {
  const ms = Number(head.retryAfterMs || Number.NaN)
  if (ms >= 0) return capAtOneDay(ms / 1000)
  const value = head.retryAfter
  if (value === '') return undefined
  const seconds = Number(value)
  if (seconds >= 0) return capAtOneDay(seconds)
  const dateMs = Date.parse(value)
  return Number.isNaN(dateMs) || dateMs < nowEpochMs ? undefined : capAtOneDay((dateMs - nowEpochMs) / 1000)
}

/**
 * Returns the seconds of the `google.rpc.RetryInfo` in an error of Gemini, which sends no `retry-after`. Its delay is a
 * text such as `34.07s`.
 */
function retryInfoS(body: unknown): number | undefined {
  const answered = Array.isArray(body) ? body[0] : body
  const error = isJsonObject(answered) ? answered.error : undefined
  const details = isJsonObject(error) && Array.isArray(error.details) ? error.details : []
  const info = details.find(
    detail => isJsonObject(detail) && detail['@type'] === 'type.googleapis.com/google.rpc.RetryInfo',
  )
  const [, seconds] = /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(String(info?.retryDelay)) ?? []
  return seconds === undefined ? undefined : capAtOneDay(Number(seconds))
}

function capAtOneDay(seconds: number): number {
  return Math.min(Math.ceil(seconds), RETRY_AFTER_S_MAX)
}

/**
 * A firewall in front of the server treated the prompt as an attack: SQL or shell commands are enough
 * (openwork issue 3419, OpenHands issue 4480). The gateway's key is not at fault. Counted as a refused key,
 * one such prompt would eject server after server. Another server may have no firewall.
 */
function isFromFirewall(body: string, head: ResponseHead): boolean {
  return isPage(body, head) || /^error code: 1\d{3}\s*$/.test(body)
}

/**
 * The gateway sends the same HTTP for every customer, so a proxy that rejects it is misconfigured: it expects
 * `https` (nginx, Apache and servers written in Go say so), or a client certificate.
 */
function isFromProxy(body: string): boolean {
  if (!body.trimStart().startsWith('<')) return body.startsWith('Client sent an HTTP request to an HTTPS server')
  // The footer of error pages of nginx and its imitators.
  return body.includes('<hr><center>') || body.includes('plain HTTP to an SSL-enabled')
}

function isPage(body: string, head: ResponseHead): boolean {
  return isOfType(head, 'html') || body.trimStart().startsWith('<')
}

function jsonOrText(body: string, head: ResponseHead): unknown {
  try {
    return parseUpstreamJson(body)
  } catch {
    // An HTML page of a proxy or a compressed body contains nothing useful for a customer.
    return isPage(body, head) || isCompressed(body, head) ? '' : body
  }
}

/**
 * Also recognises gzip without a content-encoding, by its first two bytes; the second is not UTF-8
 * (claude-relay-service pull request 1039).
 */
function isCompressed(body: string, { contentEncoding }: ResponseHead): boolean {
  return (contentEncoding !== '' && contentEncoding !== 'identity') || body.startsWith('\u001f\ufffd')
}
