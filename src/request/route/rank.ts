import type { OfferState } from '../../base/domain/health.ts'
import type { Offer } from '../../base/domain/offer.ts'

/** An offer with the figures that decide its place. */
export interface Rank {
  readonly offer: Offer
  /** Output tokens per choice that this offer is asked for. */
  readonly maxTokens: number
  /** The answer of this offer may be cut short although others of its model may not. */
  readonly isShort: boolean
  /** Expected cost of this request, in picodollars. */
  readonly costPicos: bigint
  /** Null when too little is known. */
  readonly predictedMs: number | null
  /** It is known and the last minute has an answer. */
  readonly isMeasured: boolean
  /** 0..1; local and cloud count as 1. */
  readonly trust: number
  readonly inFlight: number
  readonly state: OfferState
  /**
   * Ranked after the others, except much more expensive clouds: its server is full, answers none of its requests, or
   * has just come back and this request is not in its share.
   */
  readonly isHeldBack: boolean
  /** A hoster that has not proved itself; ranked after all other offers of its model. */
  readonly newcomer: NewcomerStanding
}

/**
 * `open`: a newcomer that may be explored. `capped`: one that has reached its limit of requests in flight or of money.
 */
export type NewcomerStanding = 'none' | 'open' | 'capped'

export const isCloud = ({ offer }: Rank) => offer.endpoint.kind === 'cloud'

/** Splits ranks into those that match, and the others. Both keep their order. */
export function partition(
  ranks: readonly Rank[],
  matches: (rank: Rank) => boolean,
): [readonly Rank[], readonly Rank[]] {
  const matching = ranks.filter(matches)
  return matching.length === 0 ? [NO_RANKS, ranks] : [matching, ranks.filter(rank => !matches(rank))]
}

const NO_RANKS: readonly Rank[] = []

/** Draws an index. @param random uniform in [0, 1) */
export const draw = (count: number, random: () => number) => Math.min(count - 1, Math.floor(random() * count))
