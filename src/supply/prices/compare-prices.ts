import { type OfferPrice, stepOf } from '../../domain/offer-price.ts'
import type { PublishedModel, PublishedPrices } from './published-prices.ts'

/** A price of an offer that is not the published one. Picodollars per token. */
export interface PriceDifference {
  readonly tokens: 'input' | 'output' | 'cache_read' | 'cache_write'
  /** The prompts that it applies to: those above this length. 0: all that no higher step applies to. */
  readonly aboveInputTokens: number
  readonly ours: bigint
  readonly published: bigint
}

/**
 * Compares an offer with the published prices of its model, for prompts of each length at which one of the two changes.
 * Kinds without a published price are left out.
 */
export function comparePrices(offer: OfferPrice, published: PublishedModel): PriceDifference[] {
  const edges = new Set([0, ...(offer.terms?.steps ?? []).map(step => step.aboveInputTokens)])
  for (const { aboveInputTokens } of published.steps) edges.add(aboveInputTokens)
  return [...edges]
    .sort((a, b) => a - b)
    .flatMap(aboveInputTokens => {
      const ours = pricesAt(offer, aboveInputTokens + 1)
      const theirs: PublishedPrices =
        published.steps.findLast(step => aboveInputTokens >= step.aboveInputTokens) ?? published
      return (['input', 'output', 'cacheRead', 'cacheWrite'] as const).flatMap(kind => {
        const price = theirs[kind]
        if (price === undefined || price === ours[kind]) return []
        return [{ tokens: names[kind], aboveInputTokens, ours: ours[kind], published: price }]
      })
    })
}

const names = { input: 'input', output: 'output', cacheRead: 'cache_read', cacheWrite: 'cache_write' } as const

function pricesAt(offer: OfferPrice, inputTokens: number) {
  const step = offer.terms && stepOf(offer.terms, inputTokens)
  const { inputPicoPerToken: input, outputPicoPerToken: output } = step?.price ?? offer
  return {
    input,
    output,
    cacheRead: step?.parts.cache_read ?? input,
    cacheWrite: step?.parts.cache_write ?? input,
  }
}
