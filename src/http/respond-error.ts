import type { FastifyReply } from 'fastify'
import { errorBody } from '../dialects/error-body.ts'
import { ApiError } from '../domain/errors.ts'

/** The one place that renders an error as a response. Sets status, Retry-After and x-should-retry, and sends the OpenAI body. */
export function respondError(reply: FastifyReply, error: ApiError): void {
  reply.code(error.row.status).headers(errorHeaders(error)).type('application/json').send(errorBody(error))
}

export function errorHeaders({ retryAfterS, row }: ApiError): Record<string, string> {
  return {
    ...(retryAfterS !== undefined && { 'retry-after': String(retryAfterS) }),
    ...(retryAfterS !== undefined && retryAfterS <= 60 && { 'retry-after-ms': retryAfterMs(retryAfterS) }),
    ...(row.shouldRetry === false && { 'x-should-retry': 'false' }),
  }
}

/** Below 60 s, for which the Vercel AI SDK does not wait: who has waited for a minute to end may be refused in the first second of the next. */
function retryAfterMs(seconds: number): string {
  return String(Math.min(seconds * 1000, 59_999))
}

/** Whether the operator should read of it: 5xx, but not the refusals that a drain or a full house is meant to give. */
export function isFault({ row, code }: ApiError): boolean {
  return row.status >= 500 && code !== 'server_shutdown' && code !== 'overloaded' && code !== 'no_eligible_offer'
}

/** What was thrown as something a caller may be told. Anything unknown is ours, and says nothing about our inside. */
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
        message: 'The body is not as long as Content-Length says.',
      })
    case 'FST_ERR_BAD_URL':
      return new ApiError('not_found')
    default:
      return new ApiError('internal_error', { internal: thrown })
  }
}
