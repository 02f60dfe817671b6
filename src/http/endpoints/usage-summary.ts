import type { Reports } from '../../money/usage/reports.ts'
import { usageSummary as schema } from '../../wire/api/reports.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/usage */
export function usageSummary(deps: { reports: Reports }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'getUsage',
      summary: 'Get a usage summary',
      description: 'Returns the balance, the use of the request limits, and the usage of the last 30 UTC days.',
      tag: 'Usage',
      response: { contentType: 'application/json', schema, description: 'The usage summary.' },
    },
    handle: ({ caller }) => deps.reports.summary(caller),
  }
}
