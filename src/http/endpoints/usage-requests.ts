import { requestPage, requestsQuery } from '../../api/activity.ts'
import { readQuery } from '../../api/reports.ts'
import type { Activity } from '../../usage/activity.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/usage/requests */
export function usageRequests(deps: { activity: Activity }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/requests',
    access: 'key',
    isReport: true,
    doc: {
      operationId: 'listRequests',
      summary: 'Every request, newest first',
      description: 'Pages through the requests. What arrives meanwhile moves no page: no request is missed or doubled.',
      tag: 'Usage',
      query: requestsQuery,
      response: { contentType: 'application/json', schema: requestPage, description: 'A page.' },
    },
    handle: ({ caller, request }) => deps.activity.list(caller, readQuery(requestsQuery, request.query)),
  }
}
