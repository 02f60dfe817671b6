import type { IncomingMessage } from 'node:http'
import { ApiError } from '../domain/errors.ts'
import type { WholeRequest } from './whole-request.ts'

const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/

/** The Idempotency-Key of a request, if it has one. Throws `invalid_header` unless it is 1 to 255 printable ASCII characters. */
export function idempotencyKeyOf({ headers }: IncomingMessage | WholeRequest): string | undefined {
  const key = headers['idempotency-key'] as string | undefined
  if (key === undefined || KEY.test(key)) return key
  throw new ApiError('invalid_header', {
    param: 'Idempotency-Key',
    message: 'Idempotency-Key must be 1 to 255 printable ASCII characters. A UUID is a good one.',
  })
}
