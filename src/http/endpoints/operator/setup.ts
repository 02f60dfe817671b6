import type { OperatorSetup } from '../../../operator/setup.ts'
import { parseNothing } from '../../../wire/api/operator/customer-changes.ts'
import { setupReport, setupTest } from '../../../wire/api/operator/setup.ts'
import type { Endpoint } from '../../endpoint.ts'
import { bodyOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** The steps of a new installation, and tests of what they set up. */
export function operatorSetupEndpoints(deps: OperatorEndpointDeps & { readonly setup: OperatorSetup }): Endpoint[] {
  const { setup } = deps
  return [
    operatorEndpoint(
      'GET',
      'setup',
      { scope: 'read', summary: 'Show the steps of the setup', schema: setupReport },
      () => setup.read(),
    ),
    operatorEndpoint(
      'POST',
      'setup/mail-test',
      { scope: null, summary: 'Send a test mail to oneself', schema: setupTest, needsConfirmation: false },
      async ({ request, signedIn }) => {
        parseNothing(await bodyOf(deps, request))
        return setup.testMail(signedIn.person)
      },
    ),
    operatorEndpoint(
      'POST',
      'setup/payments-test',
      { scope: 'settings', summary: 'Ask the payment services', schema: setupTest, needsConfirmation: false },
      async ({ request }) => {
        parseNothing(await bodyOf(deps, request))
        return setup.testPayments()
      },
    ),
  ]
}
