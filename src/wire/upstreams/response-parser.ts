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

/** Receives the responses of one connection. */
export interface ResponseHandler {
  /** The head of an interim response, such as 100 Continue. It is ignored. */
  onInterimHead(): void
  onHead(head: ResponseHead): void
  /** Copy `bytes` to keep them: the next read overwrites them. */
  onBody(bytes: Buffer): void
  /** The response is complete. */
  onEnd(): void
}

/** The part of a response that the next byte belongs to. From `size` on, it belongs to the chunked coding. */
type State =
  | 'idle'
  | 'head'
  | 'length'
  | 'until-close'
  | 'size'
  | 'extension'
  | 'size-lf'
  | 'chunk'
  | 'chunk-cr'
  | 'chunk-lf'
  | 'trailer'
  | 'trailer-lf'
  | 'end-lf'

const HEAD_BYTES_MAX = 16 * 1024
/** Limits the extensions of one chunk, and all trailers together. Both are ignored. */
const IGNORED_BYTES_MAX = 16 * 1024
/** 2^48 bytes. A few larger chunks would exceed exact integers. */
const SIZE_DIGITS_MAX = 12
const SEMICOLON = 59
const versionPrefix = 'HTTP/1.'

const quoted = String.raw`"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\${fieldText})*"`
const extensionsPattern = new RegExp(`^(?:;${token}(?:=(?:${token}|${quoted}))?)+$`)
/** Rejects trailers about the body's length, with which two parsers could read different bodies. */
const trailerPattern = new RegExp(`^(?!(?:content-length|transfer-encoding):)${token}:${fieldText}*$`, 'i')

/** Parses the responses of one connection, however their bytes are split. Rejects whatever RFC 9112 calls an error. */
export class ResponseParser {
  readonly #handler: ResponseHandler
  #state: State = 'idle'
  /** The start of an incomplete head. */
  #partialHead: Buffer | null = null
  /** Bytes left in the body or in the chunk. */
  #remaining = 0
  #sizeDigits = 0
  /** The start of a line of chunk extensions, or of a trailer. */
  #ignoredLine = ''
  #ignoredBytes = 0
  #keepsAlive = false
  #keepAliveS: number | null = null

  constructor(handler: ResponseHandler) {
    this.#handler = handler
  }

  /** True if the connection can carry another request after the last response. */
  get keepsAlive(): boolean {
    return this.#keepsAlive
  }

  /** Seconds the server promises to keep an idle connection open; null if it does not say. */
  get keepAliveS(): number | null {
    return this.#keepAliveS
  }

  /** Expects a response. Call it when a request was sent. */
  expect(): void {
    this.#state = 'head'
  }

  /** Throws MalformedResponse. The parser cannot be used after that. */
  push(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      switch (this.#state) {
        case 'idle':
          throw new UnsolicitedBytes('The upstream sent bytes that belong to no response.')
        case 'head':
          at = this.#readHead(bytes, at)
          break
        case 'length':
        case 'until-close':
        case 'chunk':
          at = this.#readBody(bytes, at)
          break
        default:
          this.#readFraming(bytes[at++]!)
      }
    }
  }

  /** Handles the end of the connection, which completes a body without a length. */
  close(): void {
    this.#keepsAlive = false
    if (this.#state === 'until-close') this.#finish()
  }

  #readHead(bytes: Buffer, start: number): number {
    const partial = this.#partialHead
    const all = partial === null ? bytes : Buffer.concat([partial, bytes])
    const end = all.indexOf('\r\n\r\n', start, 'latin1')
    if ((end === -1 ? all.length : end + 4) - start > HEAD_BYTES_MAX) {
      throw new MalformedResponse(`The head of the response is larger than ${HEAD_BYTES_MAX} bytes.`)
    }
    if (end === -1) {
      const beginning = all.toString('latin1', start, start + versionPrefix.length)
      if (!versionPrefix.startsWith(beginning)) throw notHttp(beginning)
      rejectBareLineFeeds(all, Math.max(start, (partial?.length ?? 0) - 1))
      this.#partialHead = Buffer.from(all.subarray(start))
      return bytes.length
    }
    this.#partialHead = null
    this.#onHead(all.toString('latin1', start, end))
    return end + 4 - (all.length - bytes.length)
  }

  #onHead(text: string): void {
    const { head, body, keepsAlive, keepAliveS } = parseResponseHead(text)
    this.#keepsAlive = keepsAlive
    this.#keepAliveS = keepAliveS
    if (head.status < 200) {
      if (!keepsAlive) throw new MalformedResponse('No response can follow this interim response.')
      this.#handler.onInterimHead()
      return
    }
    this.#handler.onHead(head)
    if (body === 0) this.#finish()
    else if (body === 'chunked') this.#expectSize()
    else if (body === 'until-close') this.#state = 'until-close'
    else {
      this.#state = 'length'
      this.#remaining = body
    }
  }

  #readBody(bytes: Buffer, start: number): number {
    const state = this.#state
    const end = state === 'until-close' ? bytes.length : Math.min(bytes.length, start + this.#remaining)
    this.#handler.onBody(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end))
    if (state === 'until-close') return end
    this.#remaining -= end - start
    if (this.#remaining > 0) return end
    if (state === 'chunk') this.#state = 'chunk-cr'
    else this.#finish()
    return end
  }

  /** Reads one byte of the framing around the chunks. */
  #readFraming(byte: number): void {
    switch (this.#state) {
      case 'size': {
        const digit = hexDigit(byte)
        if (digit !== -1 && this.#sizeDigits < SIZE_DIGITS_MAX) {
          this.#remaining = this.#remaining * 16 + digit
          this.#sizeDigits++
        } else if (digit !== -1 || this.#sizeDigits === 0) throw badChunk()
        else if (byte === CR) this.#state = 'size-lf'
        else if (byte === SEMICOLON) {
          this.#state = 'extension'
          this.#readIgnored(byte, extensionsPattern, 'size-lf')
        } else throw badChunk()
        break
      }
      case 'extension':
        this.#readIgnored(byte, extensionsPattern, 'size-lf')
        break
      case 'size-lf':
        expectByte(byte, LF)
        this.#state = this.#remaining === 0 ? 'trailer' : 'chunk'
        break
      case 'chunk-cr':
        expectByte(byte, CR)
        this.#state = 'chunk-lf'
        break
      case 'chunk-lf':
        expectByte(byte, LF)
        this.#expectSize()
        break
      case 'trailer':
        if (byte === CR && this.#ignoredLine === '') this.#state = 'end-lf'
        else this.#readIgnored(byte, trailerPattern, 'trailer-lf')
        break
      case 'trailer-lf':
        expectByte(byte, LF)
        this.#state = 'trailer'
        break
      case 'end-lf':
        expectByte(byte, LF)
        this.#finish()
        break
    }
  }

  /** Reads one byte of a line that must be well-formed and is otherwise ignored. */
  #readIgnored(byte: number, pattern: RegExp, afterLine: State): void {
    if (byte !== CR) {
      if (byte === LF || ++this.#ignoredBytes > IGNORED_BYTES_MAX) throw badChunk()
      this.#ignoredLine += String.fromCharCode(byte)
      return
    }
    if (!pattern.test(this.#ignoredLine)) throw badChunk()
    this.#ignoredLine = ''
    this.#state = afterLine
  }

  #expectSize(): void {
    this.#state = 'size'
    this.#remaining = 0
    this.#sizeDigits = 0
    this.#ignoredBytes = 0
  }

  #finish(): void {
    this.#state = 'idle'
    this.#handler.onEnd()
  }
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

function expectByte(byte: number, expected: number): void {
  if (byte !== expected) throw badChunk()
}

function badChunk(): MalformedResponse {
  return new MalformedResponse('The chunks of the response are malformed.')
}
