import type { Offer } from '../../base/domain/offer.ts'
import { recognisableModels } from '../../market/trust/audits/recognisable-models.ts'
import type { Config } from '../../start/config/config.ts'
import { configuredOffers } from '../../start/config/configured-offers.ts'
import type { Finding } from './finding.ts'

/**
 * Warns of models of hosters that no configured server can be a reference for: hosters may recognise the prompts of
 * their audits, which are in the source of this program.
 */
export function checkAudits(config: Config, hosterOffers: readonly Offer[]): Finding[] {
  const { trust } = config
  if (!trust.audits) return []
  const models = recognisableModels(hosterOffers, configuredOffers(config), trust)
  if (models.length === 0) return []
  return [
    {
      check: 'audits',
      ok: true,
      warning: true,
      detail: `No configured server or cloud has the model ${models.join(', ')}, so hosters may recognise its audits. Add a server or cloud with the model as a reference, ask customers to share requests, or set trust.canaries_file: docs/trust.md.`,
    },
  ]
}
