import { Readable } from 'node:stream'
import type { Reports } from '../../money/usage/reports.ts'
import { daysQuery, readQuery, usageExportCsv } from '../../wire/api/reports.ts'
import { corsHeaders } from '../cors.ts'
import type { Endpoint } from '../endpoint.ts'

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
        'Returns every request of a period with its tokens, cost, latency and result, for a spreadsheet. The oldest request comes first.',
      tag: 'Usage',
      query: daysQuery,
      response: {
        contentType: 'text/csv',
        schema: usageExportCsv,
        description: 'A CSV file with one line per request.',
      },
    },
    async handle({ caller, request, reply }) {
      const { fileName, archivedBefore, csv } = await deps.reports.export(
        caller,
        readQuery(daysQuery, request.query).days,
      )
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
