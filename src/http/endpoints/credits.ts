import type { CreditReports } from '../../money/usage/credit-reports.ts'
import {
  credits as creditsSchema,
  transactionsQuery,
  creditTransactions as transactionsSchema,
} from '../../wire/api/credits.ts'
import { readQuery } from '../../wire/api/reports.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/credits */
export function credits(deps: { reports: CreditReports }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/credits',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'getCredits',
      summary: 'Get the credit balance',
      description:
        'Returns the balance, the amounts granted, spent and refunded since the account was opened, and the amount currently on hold.',
      tag: 'Usage',
      response: { contentType: 'application/json', schema: creditsSchema, description: 'The credit balance.' },
    },
    handle: ({ caller }) => deps.reports.credits(caller),
  }
}

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
      response: { contentType: 'application/json', schema: transactionsSchema, description: 'A page of transactions.' },
    },
    handle: ({ caller, request }) => deps.reports.transactions(caller, readQuery(transactionsQuery, request.query)),
  }
}
