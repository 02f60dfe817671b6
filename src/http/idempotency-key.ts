import type { IncomingMessage } from 'node:http'
import { ApiError } from '../domain/errors.ts'
import { headerValues } from '../runtime/header-values.ts'
import type { WholeRequest } from './plain/whole-request.ts'

const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/

/** The Idempotency-Key of a request, if it has one. Throws `invalid_header` unless it is 1 to 255 printable ASCII characters, sent once. */
export function idempotencyKeyOf({ headers, rawHeaders }: IncomingMessage | WholeRequest): string | undefined {
  const key = headers['idempotency-key'] as string | undefined
  if (key === undefined) return
  // Node joins two to a third one, of which each node, proxy and SDK would think otherwise.
  const isOne = headerValues(rawHeaders, 'idempotency-key').length === 1
  if (isOne && KEY.test(key)) return key
  throw new ApiError('invalid_header', {
    param: 'Idempotency-Key',
    message: isOne
      ? 'Idempotency-Key must be 1 to 255 printable ASCII characters. A UUID is a good one.'
      : 'The Idempotency-Key header was sent more than once. Send it once.',
  })
}
