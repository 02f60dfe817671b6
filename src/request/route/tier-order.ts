import type { ServiceTier } from '../../base/domain/chat-job.ts'
import { limitPicos, lowestCost } from './price-order.ts'
import { isCloud, type Rank } from './rank.ts'

type Order = (pool: readonly Rank[], random: () => number, cloudCompetes?: boolean) => readonly Rank[]

/** How each service tier orders the offers of a pool. */
export const tierOrder: Record<ServiceTier, Order> = { cheapest: byPrice, balanced: byCostAndLoad, fastest: byLoad }

/**
 * Orders strictly by expected cost. At equal cost clouds come last, unless they compete, then predicted latency
 * decides; unmeasured offers come last.
 */
function byPrice(pool: readonly Rank[], _random: () => number, cloudCompetes = false): readonly Rank[] {
  return pool.toSorted((a, b) => {
    if (a.costPicos !== b.costPicos) return a.costPicos < b.costPicos ? -1 : 1
    const byKind = cloudCompetes ? 0 : compare(kindOrder(a), kindOrder(b))
    return (
      byKind ||
      compare(a.predictedMs ?? Infinity, b.predictedMs ?? Infinity) ||
      compare(a.offer.offerId, b.offer.offerId)
    )
  })
}

/**
 * How strongly a better offer is preferred: the powers of price x load and of load. The first power alone sent so many
 * requests to worse offers that prices x latencies were 41% above the best choice in hindsight. Sorting would send the
 * requests of every node to the same server until its latency shows it. See docs/decisions/2026-11-28-sharper-draws.md.
 */
const COST_AND_LOAD_POWER = 6
const LOAD_POWER = 12

/** Draws by price x load, and by trust. */
function byCostAndLoad(pool: readonly Rank[], random: () => number): readonly Rank[] {
  if (pool.length < 2) return pool
  return drawAll(pool, costAndLoadWeight(pool), random)
}

/** Draws by load alone. */
function byLoad(pool: readonly Rank[], random: () => number): readonly Rank[] {
  if (pool.length < 2) return pool
  const loadOf = loader(pool)
  const lowest = Math.min(...pool.map(loadOf))
  return drawAll(pool, rank => (lowest / loadOf(rank)) ** LOAD_POWER, random)
}

/**
 * Draws offers without replacement by exponential keys (Efraimidis and Spirakis, 2006): the first is chosen with
 * probability weight / sum of weights, and so on down the list. The operator's weight of an offer is a factor of it.
 */
function drawAll(pool: readonly Rank[], weightOf: (rank: Rank) => number, random: () => number): readonly Rank[] {
  return pool
    .map(rank => ({ rank, key: -Math.log(1 - random()) / (weightOf(rank) * (rank.offer.weight ?? 1)) }))
    .toSorted(by(({ key }) => key))
    .map(({ rank }) => rank)
}

type Weighed = Pick<Rank, 'costPicos' | 'trust' | 'predictedMs' | 'inFlight'>

/** Returns the weight of an offer of the pool: 1 / (price x load), relative to the best one and sharpened, x trust². */
function costAndLoadWeight(pool: readonly Weighed[]): (offer: Weighed) => number {
  const highestPicos = Math.max(...pool.map(({ costPicos }) => Number(costPicos)))
  // A free server would get every request, so a price counts as at least 1% of the highest.
  const countedPicosMin = Math.max(highestPicos / 100, 1)
  const loadOf = loader(pool)
  const weightedCost = (offer: Weighed) => Math.max(Number(offer.costPicos), countedPicosMin) * loadOf(offer)
  const lowest = Math.min(...pool.map(weightedCost))
  return offer => Math.max(offer.trust, NEWCOMER_TRUST) ** 2 * (lowest / weightedCost(offer)) ** COST_AND_LOAD_POWER
}

/**
 * Returns the load of an offer of the pool: its latency x (requests of this node in flight + 1). So a node does not
 * wait for the latency to show that it has filled a server. Unmeasured offers count as having the median latency, so
 * that they receive requests too.
 */
function loader(pool: readonly Weighed[]): (offer: Weighed) => number {
  const known = pool.flatMap(({ predictedMs }) => (predictedMs === null ? [] : [predictedMs])).sort((a, b) => a - b)
  const typicalMs = known[known.length >> 1] ?? 1
  return ({ predictedMs, inFlight }) => Math.max(predictedMs ?? typicalMs, 1) * (inFlight + 1)
}

/**
 * Returns the probability of each offer to be tried first with the tier `balanced`, if all are
 * measured, healthy, idle and no newcomers.
 *
 * @param pool `isLast`: tried after the others of comparable price
 * @param percent how much of the cheapest offer's cost the first one may cost
 */
export function balancedShares(pool: readonly (Weighed & { isLast: boolean })[], percent: number): number[] {
  const limit = limitPicos(lowestCost(pool), percent)
  const near = pool.filter(({ costPicos }) => costPicos <= limit)
  const first = near.filter(({ isLast }) => !isLast)
  const drawn = first.length === 0 ? near : first
  const weightOf = costAndLoadWeight(drawn)
  const weights = pool.map(offer => (drawn.includes(offer) ? weightOf(offer) : 0))
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return weights.map(weight => weight / sum)
}

/**
 * Without a floor, a hoster that starts with trust 0 could never earn trust. 0.05² is 1/400 of the share of a
 * fully trusted hoster.
 */
const NEWCOMER_TRUST = 0.05

const kindOrder = (rank: Rank) => (isCloud(rank) ? 1 : 0)
const compare = <T extends number | string>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
const by =
  <T>(key: (item: T) => number) =>
  (a: T, b: T) =>
    compare(key(a), key(b))
