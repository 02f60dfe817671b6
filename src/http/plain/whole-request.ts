/** A request that was there with its whole body when it was looked at, as far as `IncomingMessage` is asked about it. */
export interface WholeRequest {
  readonly httpVersion: '1.1'
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[]
  readonly headers: SingleHeaders
  /** Until it has been taken. */
  body: Buffer | null
}

/** Headers that the gateway reads. A second one is left to node:http: two readers could choose different ones. */
interface SingleHeaders {
  host: string | undefined
  origin: string | undefined
  'content-type': string | undefined
  'content-length': string | undefined
  'content-encoding': undefined
  'transfer-encoding': undefined
  'idempotency-key': string | undefined
}

/** As node:http has it for all requests. */
export const HEAD_BYTES_MAX = 16 * 1024
/** Of a whole request. One read of a socket brings as much, so what is kept of a request that came in parts is little, whoever sends it. */
const BYTES_MAX = 64 * 1024
/** Node refuses more than it keeps, about a thousand; SDKs send twenty. */
const FIELDS_MAX = 100

/** Lines of a token, a colon and visible ASCII: no folding, no bare CR or LF, nothing that one reader trims and another does not. */
const FIELD_LINES = /^(?:[\w!#$%&'*+.^`|~-]+:[\t\x20-\x7e]*\r\n)+$/

/**
 * Reads a plain request: the usual request line, fields that have one meaning, a body of a stated length, and nothing after it.
 *
 * What is not so plain is for node:http to read, accept or refuse: this takes only what that reads in the same way, and a test holds one
 * against the other. So whatever might smuggle a request (two lengths, chunks, bare line ends, obsolete folding) is `other`.
 *
 * @param requestLine with its CRLF
 * @returns a number when it may become such a request: with less than so many bytes it is none
 */
export function readWholeRequest(bytes: Buffer, requestLine: string): WholeRequest | number | 'other' {
  if (bytes.length < requestLine.length)
    return requestLine.startsWith(bytes.toString('latin1')) ? bytes.length + 1 : 'other'
  if (bytes.toString('latin1', 0, requestLine.length) !== requestLine) return 'other'
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd === -1) return bytes.length < HEAD_BYTES_MAX ? bytes.length + 1 : 'other'
  if (headEnd > HEAD_BYTES_MAX) return 'other'
  const fields = bytes.toString('latin1', requestLine.length, headEnd + 2)
  if (!FIELD_LINES.test(fields)) return 'other'

  const rawHeaders: string[] = []
  const headers: SingleHeaders = {
    host: undefined,
    origin: undefined,
    'content-type': undefined,
    'content-length': undefined,
    'content-encoding': undefined,
    'transfer-encoding': undefined,
    'idempotency-key': undefined,
  }
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
        if (headers[lowerName] !== undefined) return 'other'
        headers[lowerName] = value
        break
      case 'connection':
        if (value.toLowerCase() !== 'keep-alive') return 'other'
        break
      case 'proxy-connection':
      case 'content-encoding':
      case 'transfer-encoding':
      case 'trailer':
      case 'upgrade':
      case 'expect':
        return 'other'
    }
  }
  if (rawHeaders.length > 2 * FIELDS_MAX) return 'other'
  const length = headers['content-length']
  if (headers.host === undefined || length === undefined || !/^[1-9]\d{0,4}$/.test(length)) return 'other'
  const bodyStart = headEnd + 4
  const requestBytes = bodyStart + Number(length)
  if (requestBytes > BYTES_MAX || requestBytes < bytes.length) return 'other'
  if (requestBytes > bytes.length) return requestBytes
  return { httpVersion: '1.1', rawHeaders, headers, body: bytes.subarray(bodyStart) }
}
