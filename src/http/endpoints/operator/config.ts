import type { OperatorConfigService } from '../../../operator/operator-config.ts'
import { parseConfigReload, reloadedConfig } from '../../../wire/api/operator/config.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** The configuration file: see OperatorConfigService. */
export function operatorConfigEndpoints(
  deps: OperatorEndpointDeps & { readonly config: OperatorConfigService },
): Endpoint[] {
  return [
    operatorEndpoint(
      'POST',
      'config/reload',
      {
        scope: 'settings',
        summary: 'Read the configuration file again',
        schema: reloadedConfig,
        needsConfirmation: true,
      },
      async context => {
        const order = parseConfigReload(await bodyOf(deps, context.request))
        return deps.config.reload(actorOf(deps, context), order)
      },
    ),
  ]
}
