import { z } from 'zod'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import type { OperatorConsole } from '../../../operator/operator-console.ts'
import { parseGrant, parseNothing } from '../../../wire/api/operator/customer-changes.ts'
import { grantList, grantResult, grantsQuery } from '../../../wire/api/operator/customers.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import { requireConfirmation } from '../../console/require-confirmation.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** Credit that operators give. Large grants need a second operator. */
export function operatorGrantEndpoints(
  deps: OperatorEndpointDeps & { readonly operator: OperatorConsole; readonly clock: Clock },
): Endpoint[] {
  const { operator, clock } = deps
  const decision = (verb: 'approve' | 'reject', summary: string) =>
    operatorEndpoint(
      'POST',
      `grants/:grant_id/${verb}`,
      {
        scope: 'money',
        summary,
        schema: z.object({ state: z.enum(['granted', 'rejected']) }),
        needsConfirmation: true,
      },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        const grantId = idOf(context.request, 'grant_id', 'not_found')
        return operator.decideGrant(actorOf(deps, context), grantId, verb === 'approve')
      },
    )
  return [
    operatorEndpoint(
      'POST',
      'customers/:customer_id/grants',
      {
        scope: 'money',
        isDoneOnce: true,
        summary: 'Grant credit to a customer',
        schema: grantResult,
        needsConfirmation: 'unless_dry_run',
      },
      async context => {
        const order = parseGrant(await bodyOf(deps, context.request))
        if (!order.isDryRun) requireConfirmation(context.signedIn, clock.epochMs())
        const customerId = idOf(context.request, 'customer_id', 'customer_not_found')
        return operator.grant(actorOf(deps, context), customerId, order)
      },
    ),
    operatorEndpoint(
      'GET',
      'grants',
      { scope: 'read', summary: 'List grants of the console', schema: grantList, query: grantsQuery },
      async ({ request, signedIn }) => {
        const { state } = readQuery(grantsQuery, request.query)
        return { data: await operator.listGrants(state, signedIn.person.personId) }
      },
    ),
    decision('approve', 'Approve a grant of another operator'),
    decision('reject', 'Reject or withdraw a grant that waits'),
  ]
}
