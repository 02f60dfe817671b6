import type { OperatorSettingsService } from '../../../operator/operator-settings.ts'
import { operatorSettings, parseSettingsChange, writtenSettings } from '../../../wire/api/operator/settings.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** The settings that operators manage: see OperatorSettingsService. */
export function operatorSettingsEndpoints(
  deps: OperatorEndpointDeps & { readonly settings: OperatorSettingsService },
): Endpoint[] {
  const { settings } = deps
  return [
    operatorEndpoint(
      'GET',
      'settings',
      { scope: 'read', summary: 'Show the settings that can be managed', schema: operatorSettings },
      () => settings.show(),
    ),
    operatorEndpoint(
      'PATCH',
      'settings',
      { scope: 'settings', summary: 'Change settings', schema: writtenSettings, needsConfirmation: true },
      async context => {
        const order = parseSettingsChange(await bodyOf(deps, context.request))
        return settings.change(actorOf(deps, context), order, false)
      },
    ),
    operatorEndpoint(
      'PATCH',
      'settings/money',
      {
        scope: 'money',
        summary: 'Change settings that decide what is paid or given away',
        schema: writtenSettings,
        needsConfirmation: true,
      },
      async context => {
        const order = parseSettingsChange(await bodyOf(deps, context.request))
        return settings.change(actorOf(deps, context), order, true)
      },
    ),
  ]
}
