import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../../base/domain/errors.ts'
import type { OperatorProviderService } from '../../../operator/providers.ts'
import {
  operatorProviders,
  parseAskedProvider,
  parseModelRefresh,
  parseNewProvider,
  parseProviderChange,
  parseProviderRemoval,
  parseProviderSwitch,
  parseTriedProvider,
  providerPresetList,
  providerTrial,
  refreshedModels,
  servedModels,
  writtenProvider,
} from '../../../wire/api/operator/providers.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** The servers of the operator and the clouds: see OperatorProviderService. */
export function operatorProviderEndpoints(
  deps: OperatorEndpointDeps & { readonly providers: OperatorProviderService },
): Endpoint[] {
  const { providers } = deps
  return [
    operatorEndpoint(
      'GET',
      'providers',
      { scope: 'read', summary: 'List providers with their models', schema: operatorProviders },
      () => providers.list(),
    ),
    operatorEndpoint(
      'GET',
      'provider-presets',
      { scope: 'read', summary: 'List the kinds of servers to choose from', schema: providerPresetList },
      () => providers.presets(),
    ),
    operatorEndpoint(
      'POST',
      'providers',
      { scope: 'settings', summary: 'Add a provider', schema: writtenProvider, needsConfirmation: true },
      async context => providers.create(actorOf(deps, context), parseNewProvider(await bodyOf(deps, context.request))),
    ),
    operatorEndpoint(
      'PUT',
      'providers/:name',
      {
        scope: 'settings',
        summary: 'Replace the settings of a provider',
        schema: writtenProvider,
        needsConfirmation: true,
      },
      async context => {
        const order = parseProviderChange(await bodyOf(deps, context.request))
        return providers.change(actorOf(deps, context), nameOf(context.request), order)
      },
    ),
    operatorEndpoint(
      'PATCH',
      'providers/:name',
      {
        scope: 'settings',
        summary: 'Enable or disable a provider or one of its models',
        schema: writtenProvider,
        needsConfirmation: true,
      },
      async context => {
        const order = parseProviderSwitch(await bodyOf(deps, context.request))
        return providers.switch(actorOf(deps, context), nameOf(context.request), order)
      },
    ),
    operatorEndpoint(
      'DELETE',
      'providers/:name',
      {
        scope: 'settings',
        summary: 'Remove a provider with its keys',
        schema: writtenProvider,
        needsConfirmation: true,
      },
      async context => {
        const order = parseProviderRemoval(await bodyOf(deps, context.request))
        return providers.remove(actorOf(deps, context), nameOf(context.request), order)
      },
    ),
    operatorEndpoint(
      'POST',
      'providers/:name/refresh',
      {
        scope: 'settings',
        summary: 'Look for new models of a provider',
        schema: refreshedModels,
        needsConfirmation: true,
      },
      async context => {
        parseModelRefresh(await bodyOf(deps, context.request))
        return providers.refreshModels(actorOf(deps, context), nameOf(context.request))
      },
    ),
    operatorEndpoint(
      'POST',
      'provider-models',
      { scope: 'settings', summary: 'Ask a server for its models', schema: servedModels, needsConfirmation: true },
      async ({ request }) => providers.servedModels(parseAskedProvider(await bodyOf(deps, request))),
    ),
    operatorEndpoint(
      'POST',
      'provider-trials',
      {
        scope: 'settings',
        summary: 'Send one small request to a model of a server',
        schema: providerTrial,
        needsConfirmation: true,
      },
      async ({ request }) => providers.tryModel(parseTriedProvider(await bodyOf(deps, request))),
    ),
  ]
}

function nameOf({ params }: FastifyRequest): string {
  const { name } = params as { name?: string }
  if (name === undefined || !/^[a-z0-9][a-z0-9._-]{0,62}$/.test(name)) throw new ApiError('not_found')
  return name
}
