import type { Endpoint } from '../../http/endpoint.ts'
import type { OperatorEndpointDeps } from '../../http/endpoints/operator/operator-endpoint.ts'
import { trustEndpoints } from '../../http/endpoints/trust.ts'
import { recognisableModels } from '../../market/trust/audits/recognisable-models.ts'
import { createTrustService, type TrustService } from '../../market/trust/trust-service.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Supply } from './supply.ts'

/** Why hosters are trusted, and what operators decide about that. */
export interface Trust {
  readonly service: TrustService
  readonly endpoints: readonly Endpoint[]
}

export function createTrust(
  { config, clock }: ComposeContext,
  { general }: Database,
  { catalog }: Pick<Supply, 'catalog'>,
  addressOf: OperatorEndpointDeps['addressOf'],
): Trust {
  const modelsOf = (hosterId: string) => {
    const { offers } = catalog.current()
    const ofHoster = offers.filter(({ endpoint }) => endpoint.hosterId === hosterId)
    return config.trust.audits ? recognisableModels(ofHoster, offers, config.trust) : []
  }
  const service = createTrustService({ pool: general, clock, recognisableModels: modelsOf })
  const bodyLimitBytes = smallBodyLimit(config.server.bodyLimitBytes)
  return { service, endpoints: trustEndpoints({ service, addressOf, bodyLimitBytes }) }
}
