import type { TrustService } from '../../../market/trust/trust-service.ts'
import { operatorTrust, parseQuarantineDecision } from '../../../wire/api/trust.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** What operators see and decide about trust in a hoster. */
export function operatorTrustEndpoints(deps: OperatorEndpointDeps & { readonly trust: TrustService }): Endpoint[] {
  const { trust } = deps
  return [
    operatorEndpoint(
      'GET',
      'hosters/:hoster_id/trust',
      { scope: 'read', summary: "Explain a hoster's trust score", schema: operatorTrust },
      ({ request }) => trust.showLive(idOf(request, 'hoster_id', 'not_found')),
    ),
    operatorEndpoint(
      'POST',
      'hosters/:hoster_id/quarantine',
      {
        scope: 'supply',
        summary: 'End or keep a quarantine, and answer the appeal',
        schema: operatorTrust,
        needsConfirmation: true,
      },
      async context => {
        const hosterId = idOf(context.request, 'hoster_id', 'not_found')
        const decision = parseQuarantineDecision(await bodyOf(deps, context.request))
        const actor = actorOf(deps, context)
        await trust.decide(hosterId, decision, { actor: 'operator', ...actor })
        return trust.showLive(hosterId)
      },
    ),
  ]
}
