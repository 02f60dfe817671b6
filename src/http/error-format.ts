import { messagesErrorBody } from '../dialects/messages/messages-error-body.ts'
import { errorBody } from '../dialects/openai-error-body.ts'
import type { ApiError } from '../domain/errors.ts'

/** How an address writes its errors, also before a request has been routed or read. */
export interface ErrorFormat {
  readonly body: (error: ApiError, requestId: string) => string
  /** Another header with the request id, besides `x-request-id`. */
  readonly requestIdHeader?: string
}

const openai: ErrorFormat = { body: errorBody }
const anthropic: ErrorFormat = { body: messagesErrorBody, requestIdHeader: 'request-id' }

/**
 * Returns the error format of an address.
 *
 * @param url the target of the request; undefined if it could not be read
 * @param isAnthropic whether the request has the header `anthropic-version`; addresses that several dialects share look
 *   at it
 */
export function errorFormatOf(url: string | undefined, isAnthropic: boolean): ErrorFormat {
  if (url === undefined) return openai
  if (/^\/v1\/+messages(?:[/?]|$)/.test(url)) return anthropic
  return isAnthropic && /^\/v1\/+models(?:[/?]|$)/.test(url) ? anthropic : openai
}
