import { randomUUIDv7 } from 'node:crypto'
import type { Socket } from 'node:net'
import { ApiError } from '../base/domain/errors.ts'
import { onceAnswered, owesAnswer } from './connection-bound.ts'
import { errorFormatOf, type RequestLine } from './error-format.ts'

/**
 * Answers a request that node:http cannot parse. Such a request has no response object: the answer is written
 * to the socket, after the answers to the requests before it.
 *
 * @param headStart the beginning of the request, if node:http got it in parts
 */
export function refuseUnparsable(error: ParseError, socket: Socket, headStart: Buffer | null): void {
  const isRefused = socket.writableEnded || refusedAt.has(socket)
  if (isRefused && error.code !== 'ECONNRESET') {
    discardRest(socket)
    return
  }
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  refusedAt.set(socket, socket.bytesRead)
  const line = requestLineOf(headStart ?? error.rawPacket)
  if (owesAnswer(socket)) onceAnswered(socket, () => writeRefusal(error, socket, line))
  else writeRefusal(error, socket, line)
}

function writeRefusal(error: ParseError, socket: Socket, line: RequestLine): void {
  if (!socket.writable) return
  const refusal = new ApiError(unparsableCode(error.code))
  const requestId = randomUUIDv7()
  const format = errorFormatOf(line, 'openai')
  const body = format.body(refusal, requestId)
  const { status } = refusal.row
  const idHeaders = ['x-request-id', ...(format.requestIdHeader === undefined ? [] : [format.requestIdHeader])]
  socket.end(
    `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n` +
      idHeaders.map(name => `${name}: ${requestId}\r\n`).join('') +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
}

type ParseError = Error & { readonly code?: string; readonly rawPacket?: unknown }

/** The longest beginning of a request that is searched for its target. */
const TARGET_BYTES_MAX = 256

/** Returns what the bytes that could not be parsed have of the request line. */
function requestLineOf(packet: unknown): RequestLine {
  const start = Buffer.isBuffer(packet) ? packet.toString('latin1', 0, TARGET_BYTES_MAX) : ''
  const [, method, url] = /^([A-Z]+) (\S+)/.exec(start) ?? []
  return { method, url }
}

/** What a connection had read when its request was refused. */
const refusedAt = new WeakMap<Socket, number>()
/** Twice the usual limit of a body. */
const DISCARDED_BYTES_MAX = 32 * 1024 * 1024

/**
 * Called for bytes behind a refused request. Closing with unread bytes would send a reset, and a proxy that is still
 * sending would drop the refusal and count this node as failed. `ConnectionWatch` closes the connection if the client
 * does not; until then, a client that sends without end is no longer read.
 */
function discardRest(socket: Socket): void {
  if (socket.bytesRead - (refusedAt.get(socket) ?? 0) > DISCARDED_BYTES_MAX) socket.pause()
}

function unparsableCode(code: string | undefined) {
  if (code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large'
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'request_timeout'
  return 'invalid_header'
}
