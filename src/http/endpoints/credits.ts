import type { CreditReports } from '../../money/usage/credit-reports.ts'
import { credits as schema } from '../../wire/api/credits.ts'
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
      response: { contentType: 'application/json', schema, description: 'The credit balance.' },
    },
    handle: ({ caller }) => deps.reports.credits(caller),
  }
}
