import { randomUUIDv7 } from 'node:crypto'
import type { Duplex } from 'node:stream'
import type { ApiError } from '../base/domain/errors.ts'
import { NO_SNIFFING } from '../base/runtime/header-list.ts'
import { errorBody } from '../wire/dialects/openai-error-body.ts'
import { errorHeaders } from './respond-error.ts'

/** Answers a request for a WebSocket with an error. Such a request has no response object. */
export function refuseUpgrade(socket: Duplex, error: ApiError, headers: Readonly<Record<string, string>> = {}): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const requestId = randomUUIDv7()
  const body = errorBody(error)
  const all = {
    'content-type': 'application/json',
    ...NO_SNIFFING,
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': requestId,
    ...errorHeaders(error),
    ...headers,
    connection: 'close',
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${error.row.status} Refused\r\n${lines.join('')}\r\n${body}`)
}
