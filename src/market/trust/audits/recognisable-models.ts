import type { Offer } from '../../../base/domain/offer.ts'
import type { OwnCanary } from '../../../base/domain/own-canary.ts'
import { isReference } from './audit-hoster.ts'

/**
 * Returns the models of hosters that no reference has and no prompt of the operator is for, sorted: hosters may
 * recognise the prompts of their audits, which are in the source of this program.
 *
 * @param servers the offers that may be references; others among them do not matter
 */
export function recognisableModels(
  hosterOffers: readonly Offer[],
  servers: readonly Offer[],
  { references, canaries }: { readonly references: readonly string[] | null; readonly canaries: readonly OwnCanary[] },
): string[] {
  const known = new Set(servers.filter(offer => isReference(offer, references)).map(({ modelId }) => modelId))
  const hasCanary = (modelId: string) => canaries.some(({ models }) => models?.includes(modelId) ?? true)
  const ids = new Set(hosterOffers.map(({ modelId }) => modelId))
  return [...ids].filter(modelId => !known.has(modelId) && !hasCanary(modelId)).sort()
}
