import type { ZodType } from 'zod'
import type { ApiError } from '../base/domain/errors.ts'
import { geminiErrorBody } from '../wire/dialects/gemini/gemini-error-body.ts'
import { geminiErrorSchema } from '../wire/dialects/gemini/gemini-schema.ts'
import { messageErrorSchema } from '../wire/dialects/messages/message-schema.ts'
import { messagesErrorBody } from '../wire/dialects/messages/messages-error-body.ts'
import { errorBody } from '../wire/dialects/openai-error-body.ts'
import { isGoogleTarget } from './google-target.ts'

/** How an address writes its errors, also before a request has been routed or read. */
export interface ErrorFormat {
  readonly body: (error: ApiError, requestId: string) => string
  /** The schema of the body. Undefined: OpenAI's, with the fields of `errorSchema`. */
  readonly schema?: ZodType
  /** Another header with the request id, besides `x-request-id`. */
  readonly requestIdHeader?: string
}

/** What is known of the first line of a request. */
export interface RequestLine {
  readonly method?: string | undefined
  readonly url?: string | undefined
}

const openai: ErrorFormat = { body: errorBody }
const anthropic: ErrorFormat = {
  body: messagesErrorBody,
  schema: messageErrorSchema,
  requestIdHeader: 'request-id',
}
const google: ErrorFormat = { body: geminiErrorBody, schema: geminiErrorSchema }

/** The vendor of the SDK that sent a request. Shared addresses answer in this vendor's form. */
export type ClientVendor = 'openai' | 'anthropic' | 'google'

/** Tells the vendor by the headers that only its SDKs send. */
export function clientVendorOf(headers: Readonly<Record<string, unknown>>): ClientVendor {
  if (headers['anthropic-version'] !== undefined) return 'anthropic'
  return headers['x-goog-api-key'] !== undefined || headers['x-goog-api-client'] !== undefined ? 'google' : 'openai'
}

/**
 * Returns the error format of an address.
 *
 * @param request the method and the target of the request, where they could be read
 * @param vendor see `clientVendorOf`; addresses that several vendors share look at it
 */
export function errorFormatOf({ method, url }: RequestLine, vendor: ClientVendor): ErrorFormat {
  if (url === undefined) return openai
  if (isGoogleTarget(method, url)) return google
  if (/^\/v1\/+messages(?:[/?]|$)/.test(url)) return anthropic
  if (!/^\/v1\/+models(?:[/?]|$)/.test(url)) return openai
  return vendor === 'anthropic' ? anthropic : vendor === 'google' ? google : openai
}
