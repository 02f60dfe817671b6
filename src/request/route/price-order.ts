import type { ServiceTier } from '../../base/domain/chat-job.ts'
import { limitPercent, type PriceLimits } from '../../base/domain/price-limits.ts'
import { isCloud, partition, type Rank } from './rank.ts'

/**
 * Splits offers into bands of comparable prices, the cheapest first. The first band has the offers that cost at most
 * the limit of the tier in percent of the cheapest one, the next band is made of the others in the same way, and so on.
 * So the promise about prices also holds for what is left of a plan after failures. `cheapest` has one band, which is
 * ordered by price, after the operator's own servers if they may cost more.
 */
export function priceBands(
  pool: readonly Rank[],
  tier: ServiceTier,
  limits: PriceLimits,
): readonly (readonly Rank[])[] {
  const percent = limitPercent(tier, limits)
  const localPercent = Math.max(limits.localPercent, percent)
  if (pool.length === 0 || (tier === 'cheapest' && localPercent === 100)) return [pool]
  const bands: (readonly Rank[])[] = []
  let left = pool
  do {
    const lowestPicos = lowestCost(left)
    const limit = limitPicos(lowestPicos, percent)
    const localLimit = localPercent === percent ? limit : limitPicos(lowestPicos, localPercent)
    const isNear = (rank: Rank) =>
      isLocal(rank) ? rank.costPicos <= localLimit : tier !== 'cheapest' && rank.costPicos <= limit
    const [near, further] = partition(left, isNear)
    if (near.length === 0 || further.length === 0) break
    bands.push(near)
    left = further
  } while (tier !== 'cheapest')
  return bands.length === 0 ? [pool] : [...bands, left]
}

/**
 * Splits off the hosters with prices that are comparable only for an answer of usual length: for the longest one they
 * cost more than the limit of the tier in percent of a local server or cloud of the band. A hoster sets its prices and
 * the length of its answers itself. `cheapest` promises the order of expected costs, so it splits nothing off.
 */
export function splitLopsided(
  band: readonly Rank[],
  fullCostPicos: (rank: Rank) => bigint,
  tier: ServiceTier,
  limits: PriceLimits,
): readonly (readonly Rank[])[] {
  if (tier === 'cheapest' || !band.some(isHoster)) return [band]
  const own = band.filter(rank => !isHoster(rank))
  if (own.length === 0) return [band]
  const lowestPicos = own.map(fullCostPicos).reduce((a, b) => (b < a ? b : a))
  const limit = limitPicos(lowestPicos, limitPercent(tier, limits))
  const [lopsided, others] = partition(band, rank => isHoster(rank) && fullCostPicos(rank) > limit)
  return lopsided.length === 0 ? [band] : [others, lopsided]
}

/** Returns the lowest expected cost of at least one offer, in picodollars. */
export function lowestCost(pool: readonly Pick<Rank, 'costPicos'>[]): bigint {
  let lowest = pool[0]!.costPicos
  for (const { costPicos } of pool) if (costPicos < lowest) lowest = costPicos
  return lowest
}

/** Rounded down, so that no price above the limit passes. */
export function limitPicos(lowestPicos: bigint, percent: number): bigint {
  return percent === 100 ? lowestPicos : (lowestPicos * BigInt(percent)) / 100n
}

/**
 * Adds the offers that are held back: after the others, but before clouds that cost more than `percent` of them, so a
 * full server is tried before a cloud at many times its price.
 */
export function addHeldBack(ready: readonly Rank[], held: readonly Rank[], percent: number): readonly Rank[] {
  /** The lowest cost of each cloud and those after it; 0 while other offers are left. */
  const lowestLeft = ready.map(rank => (isCloud(rank) ? rank.costPicos : 0n))
  for (let at = ready.length - 2; at >= 0; at--) {
    if (lowestLeft[at + 1]! < lowestLeft[at]!) lowestLeft[at] = lowestLeft[at + 1]!
  }
  const all: Rank[] = []
  let next = 0
  for (const [at, rank] of ready.entries()) {
    while (next < held.length && limitPicos(held[next]!.costPicos, percent) < lowestLeft[at]!) all.push(held[next++]!)
    all.push(rank)
  }
  return all.concat(held.slice(next))
}

const isHoster = ({ offer }: Rank) => offer.endpoint.kind === 'hoster'
const isLocal = ({ offer }: Rank) => offer.endpoint.kind === 'local'
