import type { Reports } from '../../money/usage/reports.ts'
import { daysQuery, readQuery, usageBreakdown as schema } from '../../wire/api/reports.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/usage/breakdown */
export function usageBreakdown(deps: { reports: Reports }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/breakdown',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'getUsageBreakdown',
      summary: 'Get cost by model and day',
      description:
        'Returns where the money of a period went: the cost of each model at each kind of server, and of each day.',
      tag: 'Usage',
      query: daysQuery,
      response: { contentType: 'application/json', schema, description: 'The cost breakdown.' },
    },
    handle: ({ caller, request }) => deps.reports.breakdown(caller, readQuery(daysQuery, request.query).days),
  }
}
