import { z } from 'zod'
import type { OperatorConsole } from '../../../operator/operator-console.ts'
import {
  hosterReview,
  operatorHosters,
  operatorModels,
  parseHosterChange,
  parseModelDecision,
  parsePriceChange,
  pricesQuery,
  priceVersions,
  unapprovedModels,
} from '../../../wire/api/operator/supply.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** Models, prices and hosters. */
export function operatorSupplyEndpoints(
  deps: OperatorEndpointDeps & { readonly operator: OperatorConsole },
): Endpoint[] {
  const { operator } = deps
  return [
    operatorEndpoint(
      'GET',
      'models',
      { scope: 'read', summary: 'List models with their offers', schema: operatorModels },
      () => operator.models(),
    ),
    operatorEndpoint(
      'GET',
      'prices',
      { scope: 'read', summary: "List versions of hosters' prices", schema: priceVersions, query: pricesQuery },
      ({ request }) => operator.priceVersions(readQuery(pricesQuery, request.query).model ?? null),
    ),
    operatorEndpoint(
      'GET',
      'model-ids',
      { scope: 'read', summary: "List the ids of hosters' models that are not approved", schema: unapprovedModels },
      () => operator.unapprovedModels(),
    ),
    operatorEndpoint(
      'POST',
      'model-ids',
      {
        scope: 'supply',
        summary: 'Approve or refuse the id of a model that hosters offer',
        schema: unapprovedModels,
        needsConfirmation: true,
      },
      async context => {
        await operator.decideModel(actorOf(deps, context), parseModelDecision(await bodyOf(deps, context.request)))
        return operator.unapprovedModels()
      },
    ),
    operatorEndpoint('GET', 'hosters', { scope: 'read', summary: 'List hosters', schema: operatorHosters }, () =>
      operator.hosters(),
    ),
    operatorEndpoint(
      'GET',
      'hosters/:hoster_id',
      { scope: 'read', summary: 'Show a hoster with all that a review needs', schema: hosterReview },
      async context => {
        const hosterId = idOf(context.request, 'hoster_id', 'not_found')
        const review = await operator.hoster(hosterId)
        const visit = { action: 'hoster.viewed', subject: hosterId } as const
        await operator.noteVisit(context.signedIn, visit, deps.addressOf(context.request))
        return review
      },
    ),
    operatorEndpoint(
      'PATCH',
      'hosters/:hoster_id',
      {
        scope: 'supply',
        summary: 'Change the state of a hoster, with a reason, or its trust score',
        schema: operatorHosters,
        needsConfirmation: true,
      },
      async context => {
        const hosterId = idOf(context.request, 'hoster_id', 'not_found')
        const change = parseHosterChange(await bodyOf(deps, context.request))
        await operator.changeHoster(actorOf(deps, context), hosterId, change)
        return operator.hosters()
      },
    ),
    operatorEndpoint(
      'POST',
      'hosters/:hoster_id/prices',
      {
        scope: 'supply',
        summary: "Set the price of a hoster's model",
        schema: z.object({ version: z.int() }),
        needsConfirmation: true,
      },
      async context => {
        const hosterId = idOf(context.request, 'hoster_id', 'not_found')
        const change = parsePriceChange(await bodyOf(deps, context.request))
        return operator.setPrice(actorOf(deps, context), hosterId, change)
      },
    ),
  ]
}
