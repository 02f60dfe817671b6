import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../../base/domain/errors.ts'
import type { OperatorPriceGroups } from '../../../operator/price-groups.ts'
import {
  assignedPriceGroup,
  customerPrices,
  parseNewPriceGroup,
  parsePriceGroupAssignment,
  parsePriceGroupChange,
  parsePriceGroupRemoval,
  priceGroups,
  priceGroupVersions,
  writtenPriceGroup,
} from '../../../wire/api/operator/price-groups.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** The prices of customers and account tiers: see OperatorPriceGroups. */
export function operatorPriceGroupEndpoints(
  deps: OperatorEndpointDeps & { readonly prices: OperatorPriceGroups },
): Endpoint[] {
  const { prices } = deps
  const customerOf = (request: FastifyRequest) => idOf(request, 'customer_id', 'customer_not_found')
  return [
    operatorEndpoint('GET', 'price-groups', { scope: 'read', summary: 'List price groups', schema: priceGroups }, () =>
      prices.list(),
    ),
    operatorEndpoint(
      'GET',
      'price-groups/:name',
      { scope: 'read', summary: 'List the versions of a price group', schema: priceGroupVersions },
      ({ request }) => prices.versions(nameOf(request)),
    ),
    operatorEndpoint(
      'POST',
      'price-groups',
      { scope: 'money', summary: 'Add a price group', schema: writtenPriceGroup, needsConfirmation: true },
      async context => {
        const { name, percent, models, reason } = parseNewPriceGroup(await bodyOf(deps, context.request))
        return prices.change(actorOf(deps, context), { name, rules: { percent, models }, reason, version: 0 })
      },
    ),
    operatorEndpoint(
      'PUT',
      'price-groups/:name',
      {
        scope: 'money',
        summary: 'Replace the rules of a price group',
        schema: writtenPriceGroup,
        needsConfirmation: true,
      },
      async context => {
        const { percent, models, reason, version } = parsePriceGroupChange(await bodyOf(deps, context.request))
        const name = nameOf(context.request)
        return prices.change(actorOf(deps, context), { name, rules: { percent, models }, reason, version })
      },
    ),
    operatorEndpoint(
      'DELETE',
      'price-groups/:name',
      { scope: 'money', summary: 'Remove a price group', schema: writtenPriceGroup, needsConfirmation: true },
      async context => {
        const { reason, version } = parsePriceGroupRemoval(await bodyOf(deps, context.request))
        const name = nameOf(context.request)
        return prices.change(actorOf(deps, context), { name, rules: null, reason, version })
      },
    ),
    operatorEndpoint(
      'GET',
      'customers/:customer_id/price-group',
      { scope: 'read', summary: 'Show the price group of a customer', schema: customerPrices },
      ({ request }) => prices.ofCustomer(customerOf(request)),
    ),
    operatorEndpoint(
      'PUT',
      'customers/:customer_id/price-group',
      { scope: 'money', summary: 'Give a customer a price group', schema: customerPrices, needsConfirmation: true },
      async context => {
        const { price_group: name, reason } = parsePriceGroupAssignment(await bodyOf(deps, context.request))
        const customerId = customerOf(context.request)
        await prices.assignToCustomer(actorOf(deps, context), { customerId, name, reason })
        return prices.ofCustomer(customerId)
      },
    ),
    operatorEndpoint(
      'PUT',
      'tier-price-groups/:name',
      {
        scope: 'money',
        summary: 'Give an account tier a price group',
        schema: assignedPriceGroup,
        needsConfirmation: true,
      },
      async context => {
        const { price_group: name, reason } = parsePriceGroupAssignment(await bodyOf(deps, context.request))
        await prices.assignToTier(actorOf(deps, context), { tier: nameOf(context.request), name, reason })
        return { price_group: name }
      },
    ),
  ]
}

function nameOf({ params }: FastifyRequest): string {
  const { name } = params as { name?: string }
  if (name === undefined || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) throw new ApiError('not_found')
  return name
}
