import type { DataProtection } from '../../../operator/data-protection.ts'
import { parseNothing } from '../../../wire/api/operator/customer-changes.ts'
import { erasedCustomer, erasedPerson, personalDataExport } from '../../../wire/api/operator/data-protection.ts'
import type { Endpoint } from '../../endpoint.ts'
import { sendAttachment } from '../personal-data.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** What is kept of people and customers: handed out, and erased, as by the command line. */
export function operatorDataProtectionEndpoints(
  deps: OperatorEndpointDeps & { readonly dataProtection: DataProtection },
): Endpoint[] {
  const { dataProtection } = deps
  const change = { scope: 'settings', needsConfirmation: true } as const
  return [
    operatorEndpoint(
      'POST',
      'people/:person_id/export',
      { ...change, summary: 'Export all that is kept of a person', schema: personalDataExport },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        const personId = idOf(context.request, 'person_id', 'not_found')
        return sendAttachment(context.reply, await dataProtection.exportPerson(actorOf(deps, context), personId))
      },
    ),
    operatorEndpoint(
      'DELETE',
      'people/:person_id',
      { ...change, isDoneOnce: true, summary: 'Erase a person', schema: erasedPerson },
      context => dataProtection.erasePerson(actorOf(deps, context), idOf(context.request, 'person_id', 'not_found')),
    ),
    operatorEndpoint(
      'POST',
      'customers/:customer_id/export',
      { ...change, summary: 'Export all that is kept of a customer', schema: personalDataExport },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        const customerId = idOf(context.request, 'customer_id', 'customer_not_found')
        return sendAttachment(context.reply, await dataProtection.exportCustomer(actorOf(deps, context), customerId))
      },
    ),
    operatorEndpoint(
      'DELETE',
      'customers/:customer_id',
      { ...change, isDoneOnce: true, summary: 'Delete a customer', schema: erasedCustomer },
      context =>
        dataProtection.eraseCustomer(
          actorOf(deps, context),
          idOf(context.request, 'customer_id', 'customer_not_found'),
        ),
    ),
  ]
}
