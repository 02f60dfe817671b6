import {
  fieldText,
  MalformedResponse,
  notHttp,
  parseResponseHead,
  type ResponseHead,
  rejectBareLineFeeds,
  token,
  UnsolicitedBytes,
} from './response-head.ts'

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
const CR = 13
const LF = 10
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
