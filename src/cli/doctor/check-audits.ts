import type { Config } from '../../config/config.ts'
import { configuredOffers } from '../../config/configured-offers.ts'
import type { Offer } from '../../domain/offer.ts'
import { isReference } from '../../trust/audits/audit-hoster.ts'
import type { Finding } from './finding.ts'

/**
 * Warns of models of hosters that no configured server can be a reference for: hosters may recognise the prompts of their audits, which are in
 * the source of this program.
 */
export function checkAudits(config: Config, hosterOffers: readonly Offer[]): Finding[] {
  const { trust } = config
  if (!trust.audits) return []
  const references = configuredOffers(config).filter(offer => isReference(offer, trust.references))
  const known = new Set(references.map(({ modelId }) => modelId))
  const models = [...new Set(hosterOffers.map(({ modelId }) => modelId))].filter(
    modelId =>
      !known.has(modelId) && !trust.canaries.some(({ models: only }) => only === undefined || only.includes(modelId)),
  )
  if (models.length === 0) return []
  return [
    {
      ...{ check: 'audits', ok: true, warning: true },
      detail: `No configured server or cloud has the model ${models.sort().join(', ')}, so hosters may recognise its audits. Add a server or cloud with the model as a reference, ask customers to share requests, or set trust.canaries_file: docs/trust.md.`,
    },
  ]
}
