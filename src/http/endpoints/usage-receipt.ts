import { requestReceipt } from '../../api/activity.ts'
import type { Activity } from '../../usage/activity.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/usage/requests/{id}. A wildcard, so that whatever is no id is an unknown request and no unknown address. */
export function usageReceipt(deps: { activity: Activity }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/requests/*',
    access: 'key',
    isReport: true,
    doc: {
      operationId: 'getRequestReceipt',
      summary: 'The receipt of one request',
      description:
        'What it cost and why, who served it, and who else might have. No text of the request or answer is stored.',
      tag: 'Usage',
      openapiPath: '/v1/usage/requests/{id}',
      errors: ['request_not_found'],
      response: { contentType: 'application/json', schema: requestReceipt, description: 'The receipt.' },
    },
    handle: ({ caller, request }) => deps.activity.receipt(caller, (request.params as { '*': string })['*']),
  }
}
