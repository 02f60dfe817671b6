import { memoryUsedUp } from '../../base/domain/errors.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'
import {
  type GenerationHeader,
  type GenerationRequest,
  type GenerationRoute,
  SWITCHYARD_PREFIX,
} from '../generation-exchange.ts'
import { HEAD_BYTES_MAX } from '../node-server.ts'
import { bodyTooLarge } from '../request-body.ts'

/** The request lines of plain requests, each with its route. */
export class RequestLines {
  readonly #lines: readonly RequestLine[]
  readonly #bytesMax: number

  constructor(routes: readonly GenerationRoute[]) {
    const literal = routes.filter(({ path }) => !path.includes('{'))
    this.#lines = literal.map(route => ({ text: `${route.method} ${route.path} HTTP/1.1\r\n`, route }))
    this.#bytesMax = Math.max(0, ...this.#lines.map(({ text }) => text.length))
  }

  /** Returns the line that the bytes start with, or could start with once more bytes arrive. */
  match(bytes: Buffer): RequestLine | undefined {
    const start = bytes.toString('latin1', 0, this.#bytesMax)
    return this.#lines.find(({ text }) => start.startsWith(text) || text.startsWith(start))
  }
}

interface RequestLine {
  /** Includes the CRLF. */
  readonly text: string
  readonly route: GenerationRoute
}

/** The headers that the gateway reads. */
interface ReadHeaders extends Record<GenerationHeader, string | undefined> {
  /** Names and values in turn. */
  switchyard: string[] | null
}

/** A request that was read from the socket together with its whole body. */
export class PlainRequest implements GenerationRequest {
  readonly httpVersion = '1.1'
  readonly rawHeaders: readonly string[]
  readonly route: GenerationRoute
  readonly #headers: ReadHeaders
  #body: Buffer | null

  constructor(route: GenerationRoute, rawHeaders: readonly string[], headers: ReadHeaders, body: Buffer) {
    this.route = route
    this.rawHeaders = rawHeaders
    this.#headers = headers
    this.#body = body
  }

  get target(): string {
    return this.route.path
  }

  header(name: GenerationHeader): string | undefined {
    return this.#headers[name]
  }

  get switchyardHeaders(): readonly string[] | null {
    return this.#headers.switchyard
  }

  readBody(limitBytes: number, memory: ByteAccount): Promise<Buffer> {
    const body = this.#body!
    // Frees the body: the request lives until its answer ends, which may be a long stream.
    this.#body = null
    if (body.length > limitBytes) return Promise.reject(bodyTooLarge(limitBytes))
    return memory.take(body.length) ? Promise.resolve(body) : Promise.reject(memoryUsedUp(memory))
  }
}

/**
 * The size limit of a whole request. It equals one read of a socket, which bounds the memory of an incomplete
 * request.
 */
const BYTES_MAX = 64 * 1024
/** node:http accepts about a thousand fields; SDKs send about twenty. */
const FIELDS_MAX = 100

/**
 * Lines that consist of a token, a colon and visible ASCII. Excludes folded lines, bare CR or LF, and characters
 * that some parsers trim.
 */
const FIELD_LINES = /^(?:[\w!#$%&'*+.^`|~-]+:[\t\x20-\x7e]*\r\n)+$/

/**
 * Parses a plain request: one of the request lines, unambiguous fields, a body with a Content-Length, and
 * nothing after it.
 *
 * Everything else is `other` and is handed to node:http. That includes everything that could smuggle a
 * request: two lengths, chunks, bare line ends, folded lines. A test compares this parser with node:http on
 * mutated requests.
 *
 * @returns the request; for an incomplete one, the least number of bytes that it can have
 */
export function parsePlainRequest(bytes: Buffer, lines: RequestLines): PlainRequest | number | 'other' {
  const line = lines.match(bytes)
  if (line === undefined) return 'other'
  if (bytes.length < line.text.length) return bytes.length + 1
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd === -1) return bytes.length < HEAD_BYTES_MAX ? bytes.length + 1 : 'other'
  if (headEnd > HEAD_BYTES_MAX) return 'other'
  const fields = bytes.toString('latin1', line.text.length, headEnd + 2)
  if (!FIELD_LINES.test(fields)) return 'other'

  const rawHeaders: string[] = []
  const headers: ReadHeaders = {
    host: undefined,
    origin: undefined,
    'content-type': undefined,
    'content-length': undefined,
    'content-encoding': undefined,
    'transfer-encoding': undefined,
    'idempotency-key': undefined,
    'session-id': undefined,
    'x-session-id': undefined,
    'x-claude-code-session-id': undefined,
    switchyard: null,
  }
  if (!readFields(fields, rawHeaders, headers)) return 'other'
  const length = headers['content-length']
  if (headers.host === undefined || length === undefined || !/^[1-9]\d{0,4}$/.test(length)) return 'other'
  const bodyStart = headEnd + 4
  const requestBytes = bodyStart + Number(length)
  if (requestBytes > BYTES_MAX || requestBytes < bytes.length) return 'other'
  if (requestBytes > bytes.length) return requestBytes
  return new PlainRequest(line.route, rawHeaders, headers, bytes.subarray(bodyStart))
}

/** Fills both collections. Returns false for a field that only node:http may interpret. */
function readFields(fields: string, rawHeaders: string[], headers: ReadHeaders): boolean {
  for (let at = 0; at < fields.length; ) {
    const colon = fields.indexOf(':', at)
    const end = fields.indexOf('\r\n', colon)
    const name = fields.slice(at, colon)
    const value = fields.slice(colon + 1, end).trim()
    at = end + 2
    rawHeaders.push(name, value)
    const lowerName = name.toLowerCase()
    switch (lowerName) {
      case 'host':
      case 'origin':
      case 'content-type':
      case 'content-length':
      case 'idempotency-key':
      case 'session-id':
      case 'x-session-id':
      case 'x-claude-code-session-id':
        // With duplicates, two parsers could choose different values.
        if (headers[lowerName] !== undefined) return false
        headers[lowerName] = value
        break
      case 'connection':
        if (value.toLowerCase() !== 'keep-alive') return false
        break
      case 'proxy-connection':
      case 'content-encoding':
      case 'transfer-encoding':
      case 'trailer':
      case 'upgrade':
      case 'expect':
        return false
      default:
        if (lowerName.startsWith(SWITCHYARD_PREFIX)) {
          headers.switchyard ??= []
          headers.switchyard.push(name, value)
        }
    }
  }
  return rawHeaders.length <= 2 * FIELDS_MAX
}
