import { ApiError } from '../base/domain/errors.ts'
import { headerValues } from '../base/runtime/header-list.ts'
import type { GenerationRequest } from './generation-exchange.ts'

const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/

/**
 * Returns the Idempotency-Key of a request. Throws `invalid_header` unless it is 1 to 255 printable ASCII
 * characters, sent once.
 */
export function readIdempotencyKey(request: Pick<GenerationRequest, 'header' | 'rawHeaders'>): string | undefined {
  const key = request.header('idempotency-key')
  if (key === undefined) return
  // node:http joins two keys into one that the client never sent; proxies and other nodes may pick one of the
  // two instead.
  const isSingle = headerValues(request.rawHeaders, 'idempotency-key').length === 1
  if (isSingle && KEY.test(key)) return key
  throw new ApiError('invalid_header', {
    param: 'Idempotency-Key',
    message: isSingle
      ? 'Idempotency-Key must be 1 to 255 printable ASCII characters. A UUID works well.'
      : 'The Idempotency-Key header was sent more than once. Send it once.',
  })
}
