import type { ServiceTier } from './chat-job.ts'

/** How much an offer may cost to be tried before a cheaper one of the same model, in percent of the cheaper one. */
export interface PriceLimits {
  readonly balancedPercent: number
  readonly fastestPercent: number
  /** For the operator's own servers, with every tier. A higher limit of the tier applies to them too. */
  readonly localPercent: number
}

export const standardPriceLimits: PriceLimits = { balancedPercent: 150, fastestPercent: 300, localPercent: 100 }

/** Returns the limit of a tier for offers other than the operator's own servers, in percent. */
export function limitPercent(tier: ServiceTier, { balancedPercent, fastestPercent }: PriceLimits): number {
  return tier === 'cheapest' ? 100 : tier === 'balanced' ? balancedPercent : fastestPercent
}
