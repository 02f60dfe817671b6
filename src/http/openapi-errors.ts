import { ApiError, type ErrorCode, errorTable } from '../base/domain/errors.ts'
import { providerKinds } from '../base/domain/offer.ts'
import { errorBody } from '../wire/dialects/openai-error-body.ts'
import { USAGE_LIMIT_REACHED } from '../wire/dialects/responses/responses-error-body.ts'
import type { Endpoint } from './endpoint.ts'
import { type ErrorFormat, errorFormatOf } from './error-format.ts'
import { header, type Json, media } from './openapi-schema.ts'

const errorCodes = Object.keys(errorTable) as ErrorCode[]

/**
 * Returns the error responses of an endpoint: one per status, which lists the error codes with that status. Parts with
 * an id move to `schemas`.
 */
export function errorResponses(endpoint: Endpoint, schemas: Record<string, Json>): Json {
  const { method, doc, path } = endpoint
  const error = doc.error ?? errorFormatOf({ method, url: doc.openapiPath ?? path }, 'openai')
  const byStatus = Object.groupBy(endpointErrors(endpoint), code => errorTable[code].status)
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, group = []]) => [
      status,
      {
        description: group.map(code => `\`${code}\`: ${errorTable[code].message}`).join('\n\n'),
        headers: {
          'x-request-id': { $ref: '#/components/headers/RequestId' },
          ...(group.some(code => withRetryAfter.has(code)) && {
            'retry-after': header('integer', 'Whole seconds to wait before a retry.'),
            'retry-after-ms': header(
              'integer',
              'The same wait in milliseconds; only sent for waits of up to a minute.',
            ),
          }),
          ...(group.some(code => errorTable[code].shouldRetry === false) && {
            'x-should-retry': header('boolean', '`false` when a retry cannot succeed.'),
          }),
        },
        content: {
          'application/json': {
            schema: error.schema ? media(error.schema, schemas).schema : { $ref: '#/components/schemas/Error' },
            examples: Object.fromEntries(group.map(code => [code, exampleOf(code, error.body)])),
          },
        },
      },
    ]),
  )
}

const EXAMPLE_ID = '00000000-0000-7000-8000-000000000001'

/** An error that is OpenAI's is an example of the whole document. */
function exampleOf(code: ErrorCode, body: ErrorFormat['body']): Json {
  const error = new ApiError(code)
  return body(error, EXAMPLE_ID) === errorBody(error)
    ? { $ref: `#/components/examples/${code}` }
    : errorExample(code, body)
}

/** Errors of every operation. `not_found` and `method_not_allowed` concern addresses without an operation. */
const always: readonly ErrorCode[] = ['invalid_header', 'headers_too_large', 'request_timeout', 'internal_error']
const withKey: readonly ErrorCode[] = ['invalid_api_key', 'key_paused', 'database_unavailable']
const withHosterKey: readonly ErrorCode[] = ['invalid_hoster_key', 'insufficient_scope', 'database_unavailable']
const withOperatorKey: readonly ErrorCode[] = [
  'invalid_operator_key',
  'insufficient_scope',
  'rate_limit_exceeded',
  'database_unavailable',
]
const withQuery: readonly ErrorCode[] = ['invalid_value']
const withBody: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_value',
  'missing_parameter',
  'request_too_large',
  'unsupported_media_type',
]

/** Returns the error codes of an endpoint, in the order of the table. */
function endpointErrors({ access, scope, isReport, doc }: Endpoint): ErrorCode[] {
  const codes = new Set<ErrorCode>([
    ...always,
    ...(access === 'key' ? withKey : []),
    ...(access === 'hoster_key' ? withHosterKey : []),
    ...(access === 'operator_key' ? withOperatorKey : []),
    ...(doc.query ? withQuery : []),
    ...(doc.body ? withBody : []),
    ...(scope ? (['insufficient_scope'] as const) : []),
    ...(isReport ? (['rate_limit_exceeded'] as const) : []),
    ...(doc.errors ?? []),
  ])
  return errorCodes.filter(code => codes.has(code))
}

/** Errors with Retry-After: all with status 429, 503 or 504, and some others for which the wait is known. */
const withRetryAfter = new Set<ErrorCode>([
  ...errorCodes.filter(code => [429, 503, 504].includes(errorTable[code].status)),
  ...(['in_flight_budget', 'idempotency_key_in_use', 'all_hosters_failed'] as const),
])

const usdField = (description: string) => ({ type: 'number', description: `With 402, in USD: ${description}.` })

/** The fields that src/request/admit/refusal.ts adds to errors. */
const moneyFields = {
  balance_usd: usdField('the credit balance, including the holds of running requests'),
  available_usd: usdField('the amount that a request may hold now'),
  needed_usd: usdField('the smallest hold with which this request can run'),
  affordable_max_tokens: {
    type: 'integer',
    description:
      'With 402: the largest `max_tokens` with which the request would run now; 0 when the credit does not cover its prompt.',
  },
  limit_usd: usdField('the limit that was reached'),
  used_usd: usdField('the used part of that limit'),
  reset_at: {
    type: ['string', 'null'],
    format: 'date-time',
    description: 'With 402: when that limit resets; null when it never does.',
  },
}

/** The fields that src/request/chat/complete-once.ts adds to errors. */
const completedFields = {
  request_id: {
    type: 'string',
    description: 'With 409 `already_completed`: the id of the request that was answered, which has a receipt.',
  },
  cost_usd: { type: 'number', description: 'With 409 `already_completed`, in USD: the charge of that request.' },
}

const serverFields = {
  model: { type: 'string' },
  provider: { type: 'string', enum: [...providerKinds] },
  endpoint: { type: 'string' },
  hoster_id: { type: ['string', 'null'], format: 'uuid' },
}

/** The fields that src/request/dispatch/unserved-errors.ts adds to errors. */
const attemptFields = {
  tried: {
    type: 'array',
    description: 'With 500 `all_hosters_failed`: the servers that were tried, in order.',
    items: { type: 'object', properties: { ...serverFields, outcome: { type: 'string' } } },
  },
  not_tried: {
    type: 'array',
    description: 'With 500 `all_hosters_failed`: up to 16 servers that were not tried.',
    items: { type: 'object', properties: { ...serverFields, reason: { type: 'string' } } },
  },
}

/** The schema of every error response. */
export const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'param', 'code'],
      properties: {
        message: { type: 'string', description: 'What is wrong and what to do. For people.' },
        type: {
          type: 'string',
          enum: [...new Set(Object.values(errorTable).map(row => row.type)), USAGE_LIMIT_REACHED],
        },
        param: { type: ['string', 'null'], description: 'The body field, query parameter or header at fault.' },
        code: { type: 'string', enum: errorCodes, description: 'What is wrong. For programs.' },
        message_codes: {
          type: 'array',
          description:
            'The sentences of the message by codes, with their values, for pages that show them in other languages.',
          items: {
            type: 'object',
            required: ['code', 'values'],
            properties: {
              code: { type: 'string' },
              values: { type: 'object', additionalProperties: { type: ['string', 'number'] } },
            },
          },
        },
        ...moneyFields,
        resets_at: {
          type: 'integer',
          description: 'With 429 `daily_limit_exceeded` at /v1/responses: when the limit resets, in Unix seconds.',
        },
        ...completedFields,
        ...attemptFields,
      },
    },
  },
}

/** Returns one example per error code. */
export function errorExamples(): Json {
  return Object.fromEntries(errorCodes.map(code => [code, errorExample(code)]))
}

function errorExample(code: ErrorCode, body: ErrorFormat['body'] = errorBody): Json {
  const { status, message } = errorTable[code]
  return { summary: `${status} ${code}`, description: message, value: JSON.parse(body(new ApiError(code), EXAMPLE_ID)) }
}
