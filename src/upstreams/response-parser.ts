/** What the gateway looks at of a response's head. Texts are empty where the header is missing. */
export interface ResponseHead {
  readonly status: number
  readonly contentType: string
  readonly contentEncoding: string
  readonly retryAfter: string
  readonly retryAfterMs: string
}

export interface ResponseHandler {
  onHead(head: ResponseHead): void
  /** `bytes` may be overwritten as soon as this returns: what is to last must be copied. */
  onBody(bytes: Buffer): void
  /** The response is whole. */
  onEnd(): void
}

/** What arrived is not HTTP/1.1, or could be read in two ways. */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse'
}

/** `until-close`: the body has no other end than the connection's. The names from `size` on are of the chunked coding. */
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
/** Of a chunk's extensions and of the trailers: nobody reads them. */
const UNREAD_BYTES_MAX = 16 * 1024
/** 2^48 bytes; more could not be counted exactly for long. */
const SIZE_DIGITS_MAX = 12
const CR = 13
const LF = 10
const SPACE = 32
const SEMICOLON = 59

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const text = String.raw`[\t\x20-\x7e\x80-\xff]`
const quoted = String.raw`"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\${text})*"`
/**
 * RFC 9112, without what it lets a recipient put up with: bare LF, folded lines, blanks before the colon and control characters are how two
 * readers of one response come to different ends of it.
 */
const headPattern = new RegExp(String.raw`^HTTP/1\.[01] [1-9]\d\d(?: ${text}*)?(?:\r\n${token}:${text}*)*$`)
const extensionsPattern = new RegExp(`^(?:;${token}(?:=(?:${token}|${quoted}))?)+$`)
/** A trailer that spoke of the body's length would be one more way to read it. */
const trailerPattern = new RegExp(`^(?!(?:content-length|transfer-encoding):)${token}:${text}*$`, 'i')
/** Options of the connection header, whose values end in a comma here. */
const closePattern = /(?:^|,)[\t ]*close[\t ]*,/
const keepPattern = /(?:^|,)[\t ]*keep-alive[\t ]*,/
const versionOne = 'HTTP/1.'
/** `HTTP/1.1 200`: more would be in the log, and might be anything. */
const STATUS_CHARS = 12

/**
 * Reads the responses of one connection, however their bytes are cut into pieces. Strict: what RFC 9112 calls an error is one, and so is a byte
 * nobody asked for.
 */
export class ResponseParser {
  readonly #taker: ResponseHandler
  #state: State = 'idle'
  /** The start of a head that has not arrived whole. */
  #kept: Buffer | null = null
  /** Bytes that are still to come, of the body or of the chunk. */
  #remaining = 0
  #sizeDigits = 0
  /** The extensions of a chunk, or a trailer. */
  #unread = ''
  #unreadBytes = 0
  #keepsAlive = false
  #keepAliveS: number | null = null

  constructor(taker: ResponseHandler) {
    this.#taker = taker
  }

  /** Of the last response: whether another request may follow on its connection. */
  get keepsAlive(): boolean {
    return this.#keepsAlive
  }

  /** How long the server said it would keep the connection; null if it did not say. */
  get keepAliveS(): number | null {
    return this.#keepAliveS
  }

  /** A request was sent. */
  expect(): void {
    this.#state = 'head'
  }

  /** Throws MalformedResponse, and after that is of no more use. */
  push(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      switch (this.#state) {
        case 'idle':
          throw new MalformedResponse('The upstream sent bytes that belong to no response.')
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

  /** The upstream has closed the connection, which is the end of a body that has no other. */
  close(): void {
    this.#keepsAlive = false
    if (this.#state === 'until-close') this.#finish()
  }

  #readHead(bytes: Buffer, start: number): number {
    const kept = this.#kept
    const all = kept === null ? bytes : Buffer.concat([kept, bytes])
    const end = all.indexOf('\r\n\r\n', start, 'latin1')
    if ((end === -1 ? all.length : end + 4) - start > HEAD_BYTES_MAX) {
      throw new MalformedResponse(`The head of the response is larger than ${HEAD_BYTES_MAX} bytes.`)
    }
    if (end === -1) {
      const begun = all.toString('latin1', start, start + versionOne.length)
      if (!versionOne.startsWith(begun)) throw notHttp(begun)
      // The end of a head in line feeds alone would be waited for until the time limit.
      for (
        let at = all.indexOf(LF, Math.max(start, (kept?.length ?? 0) - 1));
        at !== -1;
        at = all.indexOf(LF, at + 1)
      ) {
        if (all[at - 1] !== CR) throw new MalformedResponse('A line of the head ends without a carriage return.')
      }
      this.#kept = Buffer.from(all.subarray(start))
      return bytes.length
    }
    this.#kept = null
    this.#takeHead(all.toString('latin1', start, end))
    return end + 4 - (all.length - bytes.length)
  }

  #takeHead(head: string): void {
    if (!headPattern.test(head)) throw notHttp(head.slice(0, STATUS_CHARS))
    const status = Number(head.slice(9, 12))
    let contentType = ''
    let contentEncoding = ''
    let retryAfter = ''
    let retryAfterMs = ''
    let connection = ''
    let length: number | null = null
    let isChunked = false
    let keepAliveS: string | undefined
    // Behind the last line, indexOf's -1 makes it 1.
    for (let at = head.indexOf('\r\n') + 2; at !== 1; ) {
      const colon = head.indexOf(':', at)
      const lineEnd = head.indexOf('\r\n', colon)
      const value = withoutBlanks(head, colon + 1, lineEnd === -1 ? head.length : lineEnd)
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
    this.#keepAliveS = keepAliveS === undefined ? null : Number(keepAliveS)
    const isFirstVersion = head.charCodeAt(7) === 0x30
    // Those who know no more than HTTP/1.0 do not know chunks.
    if (isChunked && isFirstVersion) throw new MalformedResponse('HTTP/1.0 with a transfer-encoding.')
    if (isChunked && length !== null) throw new MalformedResponse('Both content-length and transfer-encoding.')
    if (status === 101) throw new MalformedResponse('The upstream switched protocols, which nobody asked for.')
    const isBodiless = status === 204 || status === 304
    // A server that announces a body where there is none may send it nevertheless.
    const isOdd = isBodiless && (isChunked || (length ?? 0) > 0)
    this.#keepsAlive = !isOdd && !closePattern.test(connection) && (!isFirstVersion || keepPattern.test(connection))
    if (status < 200) {
      if (!this.#keepsAlive) throw new MalformedResponse('Nothing can follow this interim response.')
      return
    }
    this.#taker.onHead({ status, contentType, contentEncoding, retryAfter, retryAfterMs })
    if (isBodiless || length === 0) this.#finish()
    else if (isChunked) this.#expectSize()
    else if (length === null) this.#state = 'until-close'
    else {
      this.#state = 'length'
      this.#remaining = length
    }
  }

  #readBody(bytes: Buffer, start: number): number {
    const state = this.#state
    const end = state === 'until-close' ? bytes.length : Math.min(bytes.length, start + this.#remaining)
    this.#taker.onBody(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end))
    if (state === 'until-close') return end
    this.#remaining -= end - start
    if (this.#remaining > 0) return end
    if (state === 'chunk') this.#state = 'chunk-cr'
    else this.#finish()
    return end
  }

  /** One byte of what the chunked coding puts around its chunks. */
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
          this.#readUnread(byte, extensionsPattern, 'size-lf')
        } else throw badChunk()
        break
      }
      case 'extension':
        this.#readUnread(byte, extensionsPattern, 'size-lf')
        break
      case 'size-lf':
        mustBe(byte, LF)
        this.#state = this.#remaining === 0 ? 'trailer' : 'chunk'
        break
      case 'chunk-cr':
        mustBe(byte, CR)
        this.#state = 'chunk-lf'
        break
      case 'chunk-lf':
        mustBe(byte, LF)
        this.#expectSize()
        break
      case 'trailer':
        if (byte === CR && this.#unread === '') this.#state = 'end-lf'
        else this.#readUnread(byte, trailerPattern, 'trailer-lf')
        break
      case 'trailer-lf':
        mustBe(byte, LF)
        this.#state = 'trailer'
        break
      case 'end-lf':
        mustBe(byte, LF)
        this.#finish()
        break
    }
  }

  /** One byte of a line that nobody needs, and that has to be well-formed all the same. */
  #readUnread(byte: number, pattern: RegExp, afterLine: State): void {
    if (byte !== CR) {
      if (byte === LF || ++this.#unreadBytes > UNREAD_BYTES_MAX) throw badChunk()
      this.#unread += String.fromCharCode(byte)
      return
    }
    if (!pattern.test(this.#unread)) throw badChunk()
    this.#unread = ''
    this.#state = afterLine
  }

  #expectSize(): void {
    this.#state = 'size'
    this.#remaining = 0
    this.#sizeDigits = 0
    this.#unreadBytes = 0
  }

  #finish(): void {
    this.#state = 'idle'
    this.#taker.onEnd()
  }
}

/**
 * Part of a text, without the blanks around it. trim() would take away what is none to others: a no-break space around a length, and a tab
 * behind `chunked`, which llhttp takes for the name of another coding.
 */
function withoutBlanks(text: string, from: number, to: number): string {
  let start = from
  let end = to
  while (start < end && text.charCodeAt(start) === SPACE) start++
  while (start < end && text.charCodeAt(end - 1) === SPACE) end--
  return text.slice(start, end)
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

function mustBe(byte: number, expected: number): void {
  if (byte !== expected) throw badChunk()
}

function badChunk(): MalformedResponse {
  return new MalformedResponse('The chunks of the response do not fit together.')
}

function notHttp(start: string): MalformedResponse {
  return new MalformedResponse(`The upstream does not speak HTTP/1.1: ${JSON.stringify(start)}`)
}
