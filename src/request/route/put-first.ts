import type { ServiceTier } from '../../base/domain/chat-job.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { draw, isCloud, type Rank } from './rank.ts'

/**
 * The share of requests that tries an offer first that no answer of the last minute has measured, so that `fastest` and
 * `max_latency_ms` can use new offers, and notice when a slow one has become fast.
 */
const EXPLORED = 0.03

/** Puts an unmeasured offer first now and then, except with `cheapest`. */
export function explore(tier: ServiceTier, ranked: readonly Rank[], random: () => number): readonly Rank[] {
  if (tier === 'cheapest' || ranked.length < 2) return ranked
  const unmeasured = ranked.filter(({ isMeasured }) => !isMeasured)
  if (unmeasured.length === 0 || unmeasured.length === ranked.length || random() >= EXPLORED) return ranked
  return putFirst(ranked, elementAt(unmeasured, draw(unmeasured.length, random)))
}

/** The share of a model's requests that newcomers get together, as long as the model has other offers. */
const NEWCOMER_SHARE = 0.01

/** Puts newcomers last, except in their share of the requests, and only if they cost at most `limit`. */
export function admitNewcomer(
  limit: bigint,
  ranked: readonly Rank[],
  newcomers: readonly Rank[],
  random: () => number,
): readonly Rank[] {
  const all = [...ranked, ...newcomers]
  const open = newcomers.filter(
    ({ newcomer, isHeldBack, costPicos }) => newcomer === 'open' && !isHeldBack && costPicos <= limit,
  )
  if (open.length === 0 || random() >= NEWCOMER_SHARE) return all
  return putFirst(all, elementAt(open, draw(open.length, random)))
}

/**
 * The offer with the warm prompt cache may be this many times as expensive or slow as the best, depending on the
 * service tier.
 */
const STICKY_MARGIN = 1.5

/** Puts the offer with the warm prompt cache first if it is healthy and close to the best one. */
export function stickTo(offerId: string | null, tier: ServiceTier, ranked: readonly Rank[]): readonly Rank[] {
  const sticky = offerId === null ? undefined : ranked.find(({ offer }) => offer.offerId === offerId)
  if (sticky?.state !== 'open' || sticky === ranked[0]) return ranked
  return isCloseToBest(sticky, tier, ranked) ? putFirst(ranked, sticky) : ranked
}

function isCloseToBest(sticky: Rank, tier: ServiceTier, ranked: readonly Rank[]): boolean {
  if (tier === 'cheapest') return sticky.costPicos === ranked[0]!.costPicos && isCloud(sticky) === isCloud(ranked[0]!)
  const slowestAllowedMs = Math.min(...ranked.map(loadMsOrInfinite)) * STICKY_MARGIN
  if (tier === 'fastest') return loadMsOrInfinite(sticky) <= slowestAllowedMs
  const best = Math.min(...ranked.map(({ costPicos }) => Number(costPicos)))
  return Number(sticky.costPicos) <= best * STICKY_MARGIN && loadMsOrInfinite(sticky) <= slowestAllowedMs
}

const loadMsOrInfinite = ({ predictedMs, inFlight }: Rank) => (predictedMs ?? Infinity) * (inFlight + 1)

function putFirst(ranked: readonly Rank[], first: Rank): readonly Rank[] {
  return [first, ...ranked.filter(rank => rank !== first)]
}
