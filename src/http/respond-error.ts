import type { FastifyReply } from 'fastify'
import { ApiError } from '../base/domain/errors.ts'
import { hasArrived, isLastAnswer } from './connection-bound.ts'
import { clientVendorOf, errorFormatOf } from './error-format.ts'

/** Sends an error in the format of the requested address, with its status, Retry-After and x-should-retry. */
export function respondError(reply: FastifyReply, error: ApiError): void {
  const { id, method, url, headers } = reply.request
  const { body, requestIdHeader } = errorFormatOf({ method, url }, clientVendorOf(headers))
  if (requestIdHeader !== undefined) reply.header(requestIdHeader, id)
  const { raw } = reply.request
  if (isLastAnswer(error.row.status, raw.socket, hasArrived(raw))) reply.header('connection', 'close')
  reply.code(error.row.status).headers(errorHeaders(error)).type('application/json').send(body(error, id))
}

export function errorHeaders({ retryAfterS, shouldRetry }: ApiError): Record<string, string> {
  return {
    ...(retryAfterS !== undefined && { 'retry-after': String(retryAfterS) }),
    ...(retryAfterS !== undefined && retryAfterS <= 60 && { 'retry-after-ms': retryAfterMs(retryAfterS) }),
    ...(!shouldRetry && { 'x-should-retry': 'false' }),
  }
}

/**
 * Stays below 60 s, because the Vercel AI SDK ignores longer waits. A request refused in the first second of a
 * minute would otherwise get 60 s.
 */
function retryAfterMs(seconds: number): string {
  return String(Math.min(seconds * 1000, 59_999))
}

/**
 * Whether to log an error for the operator: a 5xx, unless the gateway is draining or full or has no eligible
 * offer.
 */
export function isFault({ row, code }: ApiError): boolean {
  return row.status >= 500 && code !== 'server_shutdown' && code !== 'overloaded' && code !== 'no_eligible_offer'
}

/**
 * Converts anything thrown into an error for the client. Unknown errors become `internal_error`, which reveals
 * no internals.
 */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  switch ((thrown as { code?: unknown } | null)?.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new ApiError('request_too_large')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ApiError('unsupported_media_type', { param: 'Content-Type' })
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
      return new ApiError('invalid_json')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new ApiError('invalid_header', {
        param: 'Content-Length',
        message: 'The length of the body does not match its Content-Length.',
      })
    case 'FST_ERR_BAD_URL':
      return new ApiError('not_found')
    default:
      return new ApiError('internal_error', { internal: thrown })
  }
}
