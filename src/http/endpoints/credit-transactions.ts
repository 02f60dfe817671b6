import type { CreditReports } from '../../money/usage/credit-reports.ts'
import { creditTransactions as schema, transactionsQuery } from '../../wire/api/credits.ts'
import { readQuery } from '../../wire/api/reports.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/credits/transactions */
export function creditTransactions(deps: { reports: CreditReports }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/credits/transactions',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'listCreditTransactions',
      summary: 'List credit transactions',
      description: 'Lists credits and refunds one by one, and charges as one transaction per day.',
      tag: 'Usage',
      query: transactionsQuery,
      response: { contentType: 'application/json', schema, description: 'A page of transactions.' },
    },
    handle: ({ caller, request }) => deps.reports.transactions(caller, readQuery(transactionsQuery, request.query)),
  }
}
