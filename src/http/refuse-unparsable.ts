import { randomUUIDv7 } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { errorBody } from '../dialects/openai-error-body.ts'
import { ApiError } from '../domain/errors.ts'

/**
 * Answers a request that node:http cannot parse. Such a request has no response object: the answer is written
 * to the socket.
 */
export function refuseUnparsable(error: Error & { code?: string }, socket: Socket): void {
  if (socket.writableEnded && error.code !== 'ECONNRESET') {
    discardRest(socket)
    return
  }
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const refusal = new ApiError(unparsableCode(error.code))
  const body = errorBody(refusal)
  const { status } = refusal.row
  socket.end(
    `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\nx-request-id: ${randomUUIDv7()}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
  refusedAt.set(socket, socket.bytesRead)
}

/** What a connection had read when its request was refused. */
const refusedAt = new WeakMap<Socket, number>()
/** Twice the largest usual body. */
const DISCARDED_BYTES_MAX = 8 * 1024 * 1024

/**
 * Called for bytes behind a refused request. Closing with unread bytes would send a reset, and a proxy that is still
 * sending would drop the refusal and count this node as failed. `ConnectionWatch` closes the connection if the client does
 * not; until then, a client that sends without end is no longer read.
 */
function discardRest(socket: Socket): void {
  if (socket.bytesRead - (refusedAt.get(socket) ?? 0) > DISCARDED_BYTES_MAX) socket.pause()
}

function unparsableCode(code: string | undefined) {
  if (code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large'
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'request_timeout'
  return 'invalid_header'
}

/**
 * Refuses an expectation other than `100-continue`, which node:http answers (RFC 9110, 10.1.1). node:http
 * reports it before routing.
 */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const refusal = new ApiError('invalid_header', {
    param: 'Expect',
    message: 'The only supported expectation is "Expect: 100-continue". Omit the header.',
  })
  const body = errorBody(refusal)
  response.writeHead(refusal.row.status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-request-id': randomUUIDv7(),
    // A body may follow, and nothing reads it.
    connection: 'close',
  })
  response.end(body)
}
