import type { IncomingMessage } from 'node:http'
import { ApiError } from '../domain/errors.ts'
import { headerValues } from '../runtime/header-values.ts'
import type { WholeRequest } from './plain/whole-request.ts'

/** RFC 9112, 3.2: throws `invalid_header` when there is not one Host. HTTP/1.0, which health checks still speak, knows none. */
export function requireHost({
  rawHeaders,
  httpVersion,
}: Pick<IncomingMessage | WholeRequest, 'rawHeaders' | 'httpVersion'>): void {
  const hosts = headerValues(rawHeaders, 'host').length
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return
  const fault = hosts === 0 ? 'is missing' : 'was sent more than once'
  throw new ApiError('invalid_header', { param: 'Host', message: `The Host header ${fault}. Send it once.` })
}
