import type { Activity } from '../../money/usage/activity.ts'
import { requestPage, requestsQuery } from '../../wire/api/activity.ts'
import { readQuery } from '../../wire/api/reports.ts'
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
