import type { IncomingMessage } from 'node:http'
import { ApiError } from '../domain/errors.ts'

/** RFC 9112, 3.2: throws `invalid_header` when there is no Host. HTTP/1.0, which health checks still speak, knows none. */
export function requireHost({ headers, httpVersion }: IncomingMessage): void {
  if (headers.host !== undefined || httpVersion === '1.0') return
  throw new ApiError('invalid_header', { param: 'Host', message: 'The Host header is missing. Send it once.' })
}
