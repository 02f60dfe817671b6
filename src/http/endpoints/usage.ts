import { Readable } from 'node:stream'
import type { Reports } from '../../money/usage/reports.ts'
import { exportQuery } from '../../wire/api/activity.ts'
import {
  usageBreakdown as breakdownSchema,
  daysQuery,
  readQuery,
  usageSummary as summarySchema,
  tokenUsage,
  tokenUsageQuery,
  usageExportCsv,
} from '../../wire/api/reports.ts'
import { corsHeaders } from '../cors.ts'
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
      response: { contentType: 'application/json', schema: summarySchema, description: 'The usage summary.' },
    },
    handle: ({ caller }) => deps.reports.summary(caller),
  }
}

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
      response: { contentType: 'application/json', schema: breakdownSchema, description: 'The cost breakdown.' },
    },
    handle: ({ caller, request }) => deps.reports.breakdown(caller, readQuery(daysQuery, request.query).days),
  }
}

/** GET /v1/usage/export */
export function usageExport(deps: { reports: Reports }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/export',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'exportUsage',
      summary: 'Export requests as CSV',
      description:
        'Returns every request of a period with its tokens, cost, latency, result and key, for a spreadsheet, or those that pass the filters of the list. The oldest request comes first.',
      tag: 'Usage',
      query: exportQuery,
      response: {
        contentType: 'text/csv',
        schema: usageExportCsv,
        description: 'A CSV file with one line per request.',
      },
    },
    async handle({ caller, request, reply }) {
      const { fileName, archivedBefore, csv } = await deps.reports.export(caller, readQuery(exportQuery, request.query))
      reply.type('text/csv; charset=utf-8').header('content-disposition', `attachment; filename="${fileName}"`)
      if (archivedBefore !== null) {
        const exposed = `${corsHeaders['access-control-expose-headers']}, x-switchyard-archived-before`
        reply.headers({ 'x-switchyard-archived-before': archivedBefore, 'access-control-expose-headers': exposed })
      }
      // At most two pieces are buffered ahead of the client. When the client leaves, the stream is
      // destroyed, which ends the query.
      return Readable.from(csv, { highWaterMark: 2 })
    },
  }
}
