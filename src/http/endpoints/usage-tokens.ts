import type { Reports } from '../../money/usage/reports.ts'
import { readQuery, tokenUsage, tokenUsageQuery } from '../../wire/api/reports.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/usage/tokens */
export function usageTokens(deps: { reports: Reports }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/tokens',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'getTokenUsage',
      summary: 'Get token usage over time',
      description:
        'Returns the tokens, the cost and the requests of a period, in total and in buckets of one hour, day, week or month.',
      tag: 'Usage',
      query: tokenUsageQuery,
      response: {
        contentType: 'application/json',
        schema: tokenUsage,
        description: 'The totals, and one bucket per interval.',
      },
    },
    handle({ caller, request }) {
      const { days, interval } = readQuery(tokenUsageQuery, request.query)
      return deps.reports.tokens(caller, days, interval)
    },
  }
}
