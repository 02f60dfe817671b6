import type { Offer } from '../../../base/domain/offer.ts'
import { type OfferPrice, stepOf } from '../../../base/domain/offer-price.ts'
import { pricesByTime } from './prices-by-time.ts'
import type { PublishedModel, PublishedPrices } from './published-prices.ts'

/** A price of an offer that is not the published one. Picodollars per token. */
export interface PriceDifference {
  readonly tokens: (typeof names)[keyof typeof names]
  /** The prompts that it applies to: those above this length. 0: all that no higher step applies to. */
  readonly aboveInputTokens: number
  /** The times of the week that it applies to, such as `Mon-Fri 01:00-04:00`, in UTC. Null: all others. */
  readonly window: string | null
  readonly ours: bigint
  readonly published: bigint
}

/**
 * Compares an offer with the published prices of its model, at all times of the week at which its price differs, and for
 * prompts of each length at which one of the two changes. Kinds without a published price are left out, and so is audio
 * where the offer takes none.
 */
export function comparePrices(offer: Offer, published: PublishedModel): PriceDifference[] {
  const compared = kinds.filter(kind => offer.features.has('audio') || !kind.endsWith('Audio'))
  return pricesByTime(offer).flatMap(({ window, price }) =>
    lengthsOf(price, published).flatMap(aboveInputTokens => {
      const ours = pricesAt(price, aboveInputTokens + 1)
      const theirs: PublishedPrices =
        published.steps.findLast(step => aboveInputTokens >= step.aboveInputTokens) ?? published
      return compared.flatMap(kind => {
        const listed = theirs[kind]
        if (listed === undefined || listed === ours[kind]) return []
        return [{ tokens: names[kind], aboveInputTokens, window, ours: ours[kind], published: listed }]
      })
    }),
  )
}

/** Returns the bounds of prompts at which one of the two prices changes, ascending. */
function lengthsOf({ terms }: OfferPrice, published: PublishedModel): number[] {
  const steps = [...(terms?.steps ?? []), ...published.steps]
  return [...new Set([0, ...steps.map(({ aboveInputTokens }) => aboveInputTokens)])].sort((a, b) => a - b)
}

const names = {
  input: 'input',
  output: 'output',
  cacheRead: 'cache_read',
  cacheWrite: 'cache_write',
  inputAudio: 'input_audio',
  outputAudio: 'output_audio',
} as const
const kinds = Object.keys(names) as (keyof typeof names)[]

function pricesAt(price: OfferPrice, inputTokens: number): Record<keyof typeof names, bigint> {
  const step = price.terms && stepOf(price.terms, inputTokens)
  const { inputPicoPerToken: input, outputPicoPerToken: output } = step?.price ?? price
  return {
    input,
    output,
    cacheRead: step?.parts.cache_read ?? input,
    cacheWrite: step?.parts.cache_write ?? input,
    inputAudio: step?.parts.input_audio ?? input,
    outputAudio: step?.parts.output_audio ?? output,
  }
}
