import { ownTrust, parseQuarantineDecision } from '../../../api/trust.ts'
import type { Clock } from '../../../runtime/clock.ts'
import type { TrustDesk } from '../../../trust/trust-desk.ts'
import { requireConfirmation } from '../../console/require-confirmation.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorDoor, operatorEndpoint } from './operator-endpoint.ts'

/** What operators see and decide about trust in a hoster. */
export function operatorTrustEndpoints(
  deps: OperatorDoor & { readonly trust: TrustDesk; readonly clock: Clock },
): Endpoint[] {
  const { trust, clock } = deps
  return [
    operatorEndpoint(
      'GET',
      'hosters/:hoster_id/trust',
      { summary: "Explain a hoster's trust score", schema: ownTrust },
      ({ request }) => trust.showOwn(idOf(request, 'hoster_id', 'not_found')),
    ),
    operatorEndpoint(
      'POST',
      'hosters/:hoster_id/quarantine',
      { summary: 'End or keep a quarantine, and answer the appeal', schema: ownTrust },
      async context => {
        requireConfirmation(context.signedIn, clock.epochMs())
        const hosterId = idOf(context.request, 'hoster_id', 'not_found')
        const decision = parseQuarantineDecision(await bodyOf(deps, context.request))
        const actor = actorOf(deps, context)
        await trust.decide(hosterId, decision, { actor: 'operator', ...actor, keyId: null })
        return trust.showOwn(hosterId)
      },
    ),
  ]
}
