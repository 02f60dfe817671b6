import type { Endpoint } from '../../http/endpoint.ts'
import type { OperatorDoor } from '../../http/endpoints/operator/operator-endpoint.ts'
import { trustEndpoints } from '../../http/endpoints/trust.ts'
import { recognisableModels } from '../../market/trust/audits/recognisable-models.ts'
import { createTrustDesk, type TrustDesk } from '../../market/trust/trust-desk.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Supply } from './supply.ts'

/** Why hosters are trusted, and what operators decide about that. */
export interface Trust {
  readonly desk: TrustDesk
  readonly endpoints: readonly Endpoint[]
}

export function createTrust(
  { config, clock }: ComposeContext,
  { general }: Database,
  { catalog }: Pick<Supply, 'catalog'>,
  addressOf: OperatorDoor['addressOf'],
): Trust {
  const modelsOf = (hosterId: string) => {
    const { offers } = catalog.current()
    const ofHoster = offers.filter(({ endpoint }) => endpoint.hosterId === hosterId)
    return config.trust.audits ? recognisableModels(ofHoster, offers, config.trust) : []
  }
  const desk = createTrustDesk({ pool: general, clock, recognisableModels: modelsOf })
  const bodyLimitBytes = smallBodyLimit(config.server.bodyLimitBytes)
  return { desk, endpoints: trustEndpoints({ desk, addressOf, bodyLimitBytes }) }
}
