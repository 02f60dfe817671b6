import type { ServiceTier } from '../domain/chat-job.ts'
import type { Rank } from './rank.ts'

type Order = (pool: readonly Rank[], random: () => number) => readonly Rank[]

/** How each service tier orders the offers of a pool. */
export const tierOrder: Record<ServiceTier, Order> = { cheapest: byPrice, balanced: byWeight, fastest: byTwoChoices }

/** Orders strictly by expected cost, ties by predicted latency, unmeasured offers last. */
function byPrice(pool: readonly Rank[]): readonly Rank[] {
  return pool.toSorted((a, b) => {
    if (a.costPicos !== b.costPicos) return a.costPicos < b.costPicos ? -1 : 1
    return compare(a.predictedMs ?? Infinity, b.predictedMs ?? Infinity) || compare(a.offer.offerId, b.offer.offerId)
  })
}

/**
 * Draws offers without replacement, with weight 1/price x 1/latency x trust², by exponential keys (Efraimidis
 * and Spirakis, 2006): the first is chosen with probability weight / sum of weights, and so on down the list.
 */
function byWeight(pool: readonly Rank[], random: () => number): readonly Rank[] {
  if (pool.length < 2) return pool
  const weightOf = weigher(pool)
  return pool
    .map(rank => ({ rank, key: -Math.log(1 - random()) / weightOf(rank) }))
    .toSorted(by(({ key }) => key))
    .map(({ rank }) => rank)
}

type Weighed = Pick<Rank, 'costPicos' | 'trust' | 'predictedMs'>

/** Returns the weight of an offer of the pool. */
function weigher(pool: readonly Weighed[]): (offer: Weighed) => number {
  const highestPicos = Math.max(...pool.map(({ costPicos }) => Number(costPicos)))
  // A free server would get every request, so a price counts as at least 1% of the highest.
  const countedPicosMin = Math.max(highestPicos / 100, 1)
  const typicalMs = medianMs(pool)
  return ({ trust, costPicos, predictedMs }) => {
    const latencyMs = Math.max(predictedMs ?? typicalMs, 1)
    return Math.max(trust, NEWCOMER_TRUST) ** 2 / (Math.max(Number(costPicos), countedPicosMin) * latencyMs)
  }
}

/** Returns the probability of each offer to be tried first with the tier `balanced`, if all are measured, healthy and no newcomers. */
export function balancedShares(pool: readonly Weighed[]): number[] {
  const weights = pool.map(weigher(pool))
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return weights.map(weight => weight / sum)
}

/**
 * Without a floor, a hoster that starts with trust 0 could never earn trust. 0.05² is 1/400 of the share of a
 * fully trusted hoster.
 */
const NEWCOMER_TRUST = 0.05

/**
 * Power of two choices: draws two offers at random and puts the one with the lower predicted latency x (in
 * flight + 1) first, and so on. Sorting by latency alone would send the whole load of every node to the same
 * server.
 */
function byTwoChoices(pool: readonly Rank[], random: () => number): readonly Rank[] {
  const typicalMs = medianMs(pool)
  const loadMsOrTypical = ({ predictedMs, inFlight }: Rank) => (predictedMs ?? typicalMs) * (inFlight + 1)
  const left = [...pool]
  const ordered: Rank[] = []
  while (left.length > 1) {
    const first = draw(left.length, random)
    const other = draw(left.length - 1, random)
    const second = other < first ? other : other + 1
    const winner = loadMsOrTypical(left[second]!) < loadMsOrTypical(left[first]!) ? second : first
    ordered.push(...left.splice(winner, 1))
  }
  return ordered.concat(left)
}

/** Returns the median latency. Unmeasured offers count as having it, so that they receive requests too. */
function medianMs(pool: readonly Pick<Rank, 'predictedMs'>[]): number {
  const known = pool.flatMap(({ predictedMs }) => (predictedMs === null ? [] : [predictedMs])).sort((a, b) => a - b)
  return known[known.length >> 1] ?? 1
}

const draw = (count: number, random: () => number) => Math.min(count - 1, Math.floor(random() * count))
const compare = <T extends number | string>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
const by =
  <T>(key: (item: T) => number) =>
  (a: T, b: T) =>
    compare(key(a), key(b))
