import { ApiError } from '../domain/errors.ts'
import { headerValues } from '../runtime/header-values.ts'
import type { GenerationRequest } from './generation-exchange.ts'

/**
 * Throws `invalid_header` unless there is exactly one Host (RFC 9112, 3.2). HTTP/1.0, which some health checks
 * use, may omit it.
 */
export function requireHost({ rawHeaders, httpVersion }: Pick<GenerationRequest, 'rawHeaders' | 'httpVersion'>): void {
  const hosts = headerValues(rawHeaders, 'host').length
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return
  const fault = hosts === 0 ? 'is missing' : 'was sent more than once'
  throw new ApiError('invalid_header', { param: 'Host', message: `The Host header ${fault}. Send it once.` })
}
