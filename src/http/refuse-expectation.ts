import { randomUUIDv7 } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError } from '../base/domain/errors.ts'
import { NO_SNIFFING } from '../base/runtime/header-list.ts'
import { clientVendorOf, errorFormatOf } from './error-format.ts'

/**
 * Refuses an expectation other than `100-continue`, which node:http answers (RFC 9110, 10.1.1). node:http
 * reports it before routing.
 */
export function refuseExpectation({ method, url, headers }: IncomingMessage, response: ServerResponse): void {
  const refusal = new ApiError('invalid_header', {
    param: 'Expect',
    message: 'The only supported expectation is "Expect: 100-continue". Omit the header.',
  })
  const requestId = randomUUIDv7()
  const format = errorFormatOf({ method, url }, clientVendorOf(headers))
  const body = format.body(refusal, requestId)
  response.writeHead(refusal.row.status, {
    'content-type': 'application/json',
    ...NO_SNIFFING,
    'content-length': Buffer.byteLength(body),
    'x-request-id': requestId,
    ...(format.requestIdHeader !== undefined && { [format.requestIdHeader]: requestId }),
    // A body may follow, and nothing reads it.
    connection: 'close',
  })
  response.end(body)
}
