import { Readable } from 'node:stream'
import { daysQuery, readQuery, usageExportCsv } from '../../api/reports.ts'
import type { Reports } from '../../usage/reports.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/usage/export */
export function usageExport(deps: { reports: Reports }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/usage/export',
    access: 'key',
    isReport: true,
    doc: {
      operationId: 'exportUsage',
      summary: 'Every request as CSV',
      tag: 'Usage',
      query: daysQuery,
      response: { contentType: 'text/csv', schema: usageExportCsv, description: 'The CSV document, as an attachment.' },
    },
    async handle({ caller, request, reply }) {
      const { fileName, csv } = await deps.reports.export(caller, readQuery(daysQuery, request.query).days)
      reply.type('text/csv; charset=utf-8').header('content-disposition', `attachment; filename="${fileName}"`)
      // Two pieces ahead of the reader at most. A client that leaves destroys the stream, and with it the reading.
      return Readable.from(csv, { highWaterMark: 2 })
    },
  }
}
