import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Acting } from '../../base/domain/acting.ts'
import type { Activity } from '../../money/usage/activity.ts'
import {
  requestContent,
  requestPage,
  requestReceipt,
  requestsQuery,
  type ShownContent,
} from '../../wire/api/activity.ts'
import { readQuery } from '../../wire/api/reports.ts'
import { actingOf } from '../acting-of.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/usage/requests */
export function usageRequests(deps: { activity: Activity }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/requests',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'listRequests',
      summary: 'List requests',
      description: 'Lists requests, newest first. New requests do not shift the pages: none is skipped or repeated.',
      tag: 'Usage',
      query: requestsQuery,
      response: { contentType: 'application/json', schema: requestPage, description: 'A page of requests.' },
    },
    handle: ({ caller, request }) => deps.activity.list(caller, readQuery(requestsQuery, request.query)),
  }
}

const pathParameters = z.object({
  id: z.string().meta({
    description: 'The `x-request-id` of the request, or the `id` in its answer, such as `chatcmpl-...`.',
    examples: ['00000000-0000-7000-8000-000000000001'],
  }),
})

/**
 * GET /v1/usage/requests/{id}. The path is a wildcard so that any text counts as an unknown request, not as an
 * unknown address.
 */
export function usageReceipt(deps: { activity: Activity }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/requests/*',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'getRequestReceipt',
      summary: 'Get the receipt of a request',
      description:
        'Shows what the request cost and why, which server answered it, and which others were considered. The text of requests and answers is stored only for keys with `record_content`.',
      tag: 'Usage',
      openapiPath: '/v1/usage/requests/{id}',
      pathParameters,
      errors: ['request_not_found'],
      response: { contentType: 'application/json', schema: requestReceipt, description: 'The receipt.' },
    },
    handle: ({ caller, request }) => deps.activity.receipt(caller, (request.params as { '*': string })['*']),
  }
}

/** GET /v1/usage/requests/{id}/content. Not every key or member of a customer may read what the others sent. */
export function usageContent(deps: {
  /** Notes each access in the audit log. */
  readonly view: (acting: Acting, customerId: string, requestId: string) => Promise<ShownContent>
  readonly addressOf: (request: FastifyRequest) => string
}): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/requests/:id/content',
    access: 'key',
    scope: 'manage',
    isReport: true,
    doc: {
      operationId: 'getRequestContent',
      summary: 'Get the prompt and the answer of a request',
      description:
        "Shows what was recorded of a request of a key with `record_content`, until the operator's retention ends. Each access is in the audit log. Requires a key with the scope `manage`.",
      tag: 'Usage',
      openapiPath: '/v1/usage/requests/{id}/content',
      pathParameters,
      errors: ['request_not_found'],
      response: { contentType: 'application/json', schema: requestContent, description: 'The content.' },
    },
    handle(context) {
      const { id } = context.request.params as { id: string }
      return deps.view(actingOf(deps, context), context.caller.customerId, id)
    },
  }
}
