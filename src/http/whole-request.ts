/** A request that was there with its whole body when it was looked at, as far as `IncomingMessage` is asked about it. */
export interface WholeRequest {
  readonly httpVersion: '1.1'
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[]
  readonly headers: SingleHeaders
  /** Until it has been taken. */
  body: Buffer | null
}

/** Those that may come once, or their readers would differ on which one counts. */
interface SingleHeaders {
  host: string | undefined
  origin: string | undefined
  'content-type': string | undefined
  'content-length': string | undefined
  'transfer-encoding': undefined
  'idempotency-key': string | undefined
}

/** As node:http has it for all requests. */
export const HEAD_BYTES_MAX = 16 * 1024
/** What one read of a socket brings at most. */
const BYTES_MAX = 64 * 1024

/** Lines of a token, a colon and visible ASCII: no folding, no bare CR or LF, nothing that one reader trims and another does not. */
const FIELDS = /^(?:[\w!#$%&'*+.^`|~-]+:[\t\x20-\x7e]*\r\n)+$/

/**
 * Reads a plain request: the usual request line, fields that have one meaning, a body of a stated length, and nothing after it.
 *
 * What is not so plain is for node:http to read, accept or refuse: this takes only what that reads in the same way, and a test holds one
 * against the other. So whatever might smuggle a request (two lengths, chunks, bare line ends, obsolete folding) is `other`.
 *
 * @param start the request line with its CRLF
 * @returns `part` when it may become such a request with more bytes
 */
export function readWholeRequest(bytes: Buffer, start: string): WholeRequest | 'part' | 'other' {
  if (bytes.length < start.length) return start.startsWith(bytes.toString('latin1')) ? 'part' : 'other'
  if (bytes.toString('latin1', 0, start.length) !== start) return 'other'
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd === -1) return bytes.length < HEAD_BYTES_MAX ? 'part' : 'other'
  if (headEnd > HEAD_BYTES_MAX) return 'other'
  const fields = bytes.toString('latin1', start.length, headEnd + 2)
  if (!FIELDS.test(fields)) return 'other'

  const rawHeaders: string[] = []
  const headers: SingleHeaders = {
    host: undefined,
    origin: undefined,
    'content-type': undefined,
    'content-length': undefined,
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
    const known = name.toLowerCase()
    switch (known) {
      case 'host':
      case 'origin':
      case 'content-type':
      case 'content-length':
      case 'idempotency-key':
        if (headers[known] !== undefined) return 'other'
        headers[known] = value
        break
      case 'connection':
        if (value.toLowerCase() !== 'keep-alive') return 'other'
        break
      case 'proxy-connection':
      case 'transfer-encoding':
      case 'trailer':
      case 'upgrade':
      case 'expect':
        return 'other'
    }
  }
  const length = headers['content-length']
  if (headers.host === undefined || length === undefined || !/^[1-9]\d{0,4}$/.test(length)) return 'other'
  const bodyStart = headEnd + 4
  const missing = bodyStart + Number(length) - bytes.length
  if (missing !== 0) return missing > 0 && bytes.length + missing <= BYTES_MAX ? 'part' : 'other'
  return { httpVersion: '1.1', rawHeaders, headers, body: bytes.subarray(bodyStart) }
}
