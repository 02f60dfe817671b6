import type { ApiError } from '../../../base/domain/errors.ts'

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

/**
 * Renders an ApiError as Anthropic's error object in JSON. `code`, `param` and the facts are additions that its SDKs
 * keep.
 *
 * @param requestId also the header `request-id`; null before a request has one
 */
export function messagesErrorBody(error: ApiError, requestId: string | null = null): string {
  return JSON.stringify({ type: 'error', error: errorObject(error), request_id: requestId })
}

/** Returns the last event of a stream that failed after its first content. */
export function messagesErrorEvent(error: ApiError, requestId: string | null = null): string {
  return `event: error\ndata: ${messagesErrorBody(error, requestId)}\n\n`
}

function errorObject({ message, row, param, code, facts }: ApiError) {
  return {
    type: types[row.status] ?? (row.status < 500 ? 'invalid_request_error' : 'api_error'),
    message,
    code,
    param,
    ...facts,
  }
}
