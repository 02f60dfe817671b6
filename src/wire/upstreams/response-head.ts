import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'

/** The parts of a response head that the gateway reads. A missing header is an empty string. */
export interface ResponseHead {
  readonly status: number
  readonly contentType: string
  readonly contentEncoding: string
  readonly retryAfter: string
  readonly retryAfterMs: string
}

/** Whether the content type contains `name` (lower case). */
export function isOfType({ contentType }: Pick<ResponseHead, 'contentType'>, name: string): boolean {
  return contentType.toLowerCase().includes(name)
}

/** Throws UpstreamFailure for bodies that cannot be an answer. */
export function rejectUnreadable(head: ResponseHead): void {
  const encoding = head.contentEncoding
  if (encoding !== '' && encoding !== 'identity') {
    throw new UpstreamFailure(
      'malformed',
      `The upstream compressed its answer (${encoding}) although the request did not allow it.`,
    )
  }
  if (isOfType(head, 'html')) throw new UpstreamFailure('malformed', 'The upstream answered with HTML.')
}

/** A response head with the framing of its body. */
interface ParsedHead {
  readonly head: ResponseHead
  /** Body length in bytes; `chunked`; or `until-close`, when only the end of the connection ends the body. */
  readonly body: number | 'chunked' | 'until-close'
  /** The connection can carry another request after this response. */
  readonly keepsAlive: boolean
  /** Seconds the server promises to keep an idle connection open; null if it does not say. */
  readonly keepAliveS: number | null
}

/** Thrown for bytes that are not HTTP/1.1, or that two parsers could interpret differently. */
export class MalformedResponse extends Error {
  override readonly name: string = 'MalformedResponse'
}

/** Thrown for bytes that belong to no response: no request was sent, or its response was complete. */
export class UnsolicitedBytes extends MalformedResponse {
  override readonly name = 'UnsolicitedBytes'
}

/** Thrown for a response that began before the server could have read the request. */
export class EarlyResponse extends MalformedResponse {
  override readonly name = 'EarlyResponse'
}

/** RFC 9110 `token`, as a regular expression. */
export const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
/** Characters allowed in a field value. */
export const fieldText = String.raw`[\t\x20-\x7e\x80-\xff]`
/**
 * Stricter than RFC 9112 requires of a recipient: rejects a bare LF, folded lines, blanks before the colon and
 * control characters, because with them two parsers could disagree about where the response ends.
 */
const headPattern = new RegExp(String.raw`^HTTP/1\.[01] [1-9]\d\d(?: ${fieldText}*)?(?:\r\n${token}:${fieldText}*)*$`)
/** Match options of the joined connection headers; a comma follows each option. */
const closePattern = /(?:^|,)[\t ]*close[\t ]*,/
const keepPattern = /(?:^|,)[\t ]*keep-alive[\t ]*,/
/**
 * The length of `HTTP/1.1 200`. Error messages quote no more of a head, because the rest may contain anything.
 */
const STATUS_CHARACTERS = 12
const CR = 13
const LF = 10
const SPACE = 32

/**
 * Parses a response head, without the blank line that ends it. Throws MalformedResponse for anything
 * ambiguous.
 */
export function parseResponseHead(head: string): ParsedHead {
  if (!headPattern.test(head)) throw notHttp(head.slice(0, STATUS_CHARACTERS))
  let contentType = ''
  let contentEncoding = ''
  let retryAfter = ''
  let retryAfterMs = ''
  let connection = ''
  let length: number | null = null
  let isChunked = false
  let keepAliveS: string | undefined
  // After the last line indexOf returns -1, so `at` becomes 1.
  for (let at = head.indexOf('\r\n') + 2; at !== 1; ) {
    const colon = head.indexOf(':', at)
    const lineEnd = head.indexOf('\r\n', colon)
    const value = trimSpaces(head, colon + 1, lineEnd === -1 ? head.length : lineEnd)
    switch (head.slice(at, colon).toLowerCase()) {
      case 'content-type':
        contentType = value
        break
      case 'content-length':
        if (length !== null || !/^\d{1,15}$/.test(value)) throw new MalformedResponse('Unclear content-length.')
        length = Number(value)
        break
      case 'transfer-encoding':
        if (isChunked || value.toLowerCase() !== 'chunked') throw new MalformedResponse('Unknown transfer-encoding.')
        isChunked = true
        break
      case 'connection':
        connection += `${value.toLowerCase()},`
        break
      case 'keep-alive':
        keepAliveS = /timeout=(\d{1,9})/i.exec(value)?.[1]
        break
      case 'content-encoding':
        contentEncoding = value
        break
      case 'retry-after':
        retryAfter = value
        break
      case 'retry-after-ms':
        retryAfterMs = value
        break
    }
    at = lineEnd + 2
  }
  const status = Number(head.slice(9, 12))
  const isHttp10 = head.charCodeAt(7) === 0x30
  // HTTP/1.0 has no chunked coding.
  if (isChunked && isHttp10) throw new MalformedResponse('HTTP/1.0 with a transfer-encoding.')
  if (isChunked && length !== null) throw new MalformedResponse('Both content-length and transfer-encoding.')
  if (status === 101) throw new MalformedResponse('The upstream switched protocols although no request asked for it.')
  const hasNoBody = status === 204 || status === 304
  // A server that announces a body where none is allowed may send it anyway.
  const announcesWrongBody = hasNoBody && (isChunked || (length ?? 0) > 0)
  return {
    head: { status, contentType, contentEncoding, retryAfter, retryAfterMs },
    body: hasNoBody ? 0 : isChunked ? 'chunked' : (length ?? 'until-close'),
    keepsAlive: !announcesWrongBody && !closePattern.test(connection) && (!isHttp10 || keepPattern.test(connection)),
    keepAliveS: keepAliveS === undefined ? null : Number(keepAliveS),
  }
}

/**
 * Slices `text` without the spaces at both ends. trim() would remove more than other parsers do: a no-break
 * space around a length, and a tab after `chunked`, which llhttp reads as part of the name of another coding.
 */
function trimSpaces(text: string, from: number, to: number): string {
  let start = from
  let end = to
  while (start < end && text.charCodeAt(start) === SPACE) start++
  while (start < end && text.charCodeAt(end - 1) === SPACE) end--
  return text.slice(start, end)
}

export function notHttp(start: string): MalformedResponse {
  return new MalformedResponse(`The upstream does not speak HTTP/1.1: ${JSON.stringify(start)}`)
}

/** Fails immediately. Otherwise the parser would wait for the end of such a head until the time limit. */
export function rejectBareLineFeeds(head: Buffer, from: number): void {
  for (let at = head.indexOf(LF, from); at !== -1; at = head.indexOf(LF, at + 1)) {
    if (head[at - 1] !== CR) throw new MalformedResponse('A line of the head ends without a carriage return.')
  }
}
