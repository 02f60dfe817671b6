import { AUTO_MODEL, type ChatJob, type ServiceTier } from '../domain/chat-job.ts'
import type { Plan, Ticket } from '../domain/handoff.ts'
import type { HealthView, OfferState } from '../domain/health.ts'
import type { Offer } from '../domain/offer.ts'
import { type OfferPrice, stepOf } from '../domain/offer-price.ts'
import { outputCap } from '../domain/output-cap.ts'

/** The inputs of routing besides the ticket. */
export interface RouteView {
  readonly health: HealthView
  /** Ranks cloud offers together with the others instead of after them. */
  readonly cloudCompetes?: boolean
  /** The offer that served this conversation recently; see affinity.ts. */
  readonly stickyOfferId?: string | null
}

/** A plan with the figures behind it: one rank for each offer, in the same order. */
export interface RankedPlan extends Plan {
  readonly ranks: readonly Rank[]
}

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
  /** 0..1; local and cloud count as 1. */
  readonly trust: number
  readonly inFlight: number
  readonly state: OfferState
}

/**
 * Orders the eligible offers of a ticket. Pure: the same ticket, view and random numbers give the same plan.
 * Models keep the order of the ticket. Within a model, local and hoster offers are ranked by the service
 * tier, followed by cloud offers (or together with them when `cloudCompetes`), followed by the offers that may
 * cut the answer short. Ejected offers, eligible only as a last resort, come at the very end, shortest ejection
 * first.
 *
 * @param random uniform in [0, 1)
 */
export function route(ticket: Ticket, job: ChatJob, view: RouteView, random: () => number): RankedPlan {
  const use = expectedUse(job, ticket.maxTokens)
  const request = { stream: job.stream, outputTokens: ticket.maxTokens }
  const all = ticket.eligible.map((offer): Rank => {
    const maxTokens = outputCap(offer, job, ticket.maxTokens)
    return {
      offer,
      maxTokens,
      isShort: maxTokens < Math.min(ticket.maxTokens, AMPLE_OUTPUT_TOKENS),
      costPicos: expectedCostPicos(offer.price, use),
      predictedMs: view.health.predictMs(offer.offerId, request),
      trust: offer.endpoint.kind === 'hoster' ? (offer.endpoint.trustScore ?? 0) : 1,
      inFlight: view.health.inFlight(offer.offerId),
      state: view.health.state(offer.offerId),
    }
  })
  // The usual case in a small installation. There is nothing to decide.
  if (all.length === 1) return { ticket, offers: ticket.eligible, ranks: all }
  const { serviceTier } = job.constraints
  const rankPool = (pool: readonly Rank[]) => {
    const ranked = explore(serviceTier, order[serviceTier](pool, random), random)
    return stickTo(view.stickyOfferId ?? null, serviceTier, ranked)
  }
  const lastResort = all.filter(isEjected).toSorted(by(({ offer }) => view.health.ejectedForMs(offer.offerId)))
  const healthy = all.filter(rank => !isEjected(rank))
  const ranks = groupByModel(ticket.models, healthy)
    .flatMap(group => [group.filter(isNotShort), group.filter(isShort)])
    .flatMap(group => (view.cloudCompetes ? [group] : [group.filter(isNotCloud), group.filter(isCloud)]))
    .flatMap(rankPool)
    .concat(lastResort)
  return { ticket, offers: ranks.map(({ offer }) => offer), ranks }
}

/** The expected tokens of a request. They are the same for every offer, so that only prices are compared. */
export interface ExpectedUse {
  readonly inputTokens: number
  readonly outputTokens: number
}

/**
 * Estimates the tokens of a request: the prompt at 4 bytes a token, and a typical answer. The bound of the
 * prompt is not used, because it counts bytes and would let input prices decide alone.
 *
 * @param maxTokens per choice, as the ticket allows
 */
export function expectedUse(job: ChatJob, maxTokens: number): ExpectedUse {
  const textBytes = job.inputTokensBound - job.mediaTokensBound
  return {
    inputTokens: Math.ceil(textBytes / 4) + job.mediaTokensBound,
    outputTokens: Math.min(maxTokens, TYPICAL_OUTPUT_TOKENS) * job.choices,
  }
}

/**
 * Returns unrounded picodollars, so two offers compare equal only if their prices do. Nothing is expected to come from
 * a cache.
 */
export function expectedCostPicos(offer: OfferPrice, use: ExpectedUse): bigint {
  const step = offer.terms && stepOf(offer.terms, use.inputTokens)
  const price = step?.price ?? offer
  const tokenPicos =
    price.inputPicoPerToken * BigInt(use.inputTokens) + price.outputPicoPerToken * BigInt(use.outputTokens)
  return step === undefined ? tokenPicos : tokenPicos + step.perRequestPicos
}

/**
 * An offer that generates this many tokens is preferred like one that generates more, because answers are rarely
 * longer: a coding agent that asks for 32,000 must not leave a local server for a cloud.
 */
const AMPLE_OUTPUT_TOKENS = 8_192

/** The median answer in public chat logs has 200 to 300 tokens. */
const TYPICAL_OUTPUT_TOKENS = 256

/** Groups offers by model; the group of `auto` gets the offers of all models that are not named. */
function groupByModel(models: readonly string[], ranks: readonly Rank[]): Rank[][] {
  const named = new Set(models)
  return [...named].map(model =>
    ranks.filter(({ offer }) => (model === AUTO_MODEL ? !named.has(offer.modelId) : offer.modelId === model)),
  )
}

type Order = (pool: readonly Rank[], random: () => number) => readonly Rank[]

const order: Record<ServiceTier, Order> = { cheapest: byPrice, balanced: byWeight, fastest: byTwoChoices }

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
  const highestPicos = Math.max(...pool.map(({ costPicos }) => Number(costPicos)))
  // A free server would get every request, so a price counts as at least 1% of the highest.
  const countedPicosMin = Math.max(highestPicos / 100, 1)
  const typicalMs = medianMs(pool)
  return pool
    .map(rank => {
      const trust = Math.max(rank.trust, NEWCOMER_TRUST)
      const latencyMs = Math.max(rank.predictedMs ?? typicalMs, 1)
      const weight = trust ** 2 / (Math.max(Number(rank.costPicos), countedPicosMin) * latencyMs)
      return { rank, key: -Math.log(1 - random()) / weight }
    })
    .toSorted(by(({ key }) => key))
    .map(({ rank }) => rank)
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
function medianMs(pool: readonly Rank[]): number {
  const known = pool.flatMap(({ predictedMs }) => (predictedMs === null ? [] : [predictedMs])).sort((a, b) => a - b)
  return known[known.length >> 1] ?? 1
}

/**
 * The share of requests that tries an unmeasured offer first, so that `fastest` and `max_latency_ms` can use new
 * offers.
 */
const EXPLORED = 0.03

function explore(tier: ServiceTier, ranked: readonly Rank[], random: () => number): readonly Rank[] {
  if (tier === 'cheapest' || ranked.length < 2) return ranked
  const unmeasured = ranked.filter(({ predictedMs }) => predictedMs === null)
  if (unmeasured.length === 0 || unmeasured.length === ranked.length || random() >= EXPLORED) return ranked
  return putFirst(ranked, unmeasured[draw(unmeasured.length, random)]!)
}

/**
 * The offer with the warm prompt cache may be this many times as expensive or slow as the best, depending on the
 * service tier.
 */
const STICKY_MARGIN = 1.5

function stickTo(offerId: string | null, tier: ServiceTier, ranked: readonly Rank[]): readonly Rank[] {
  const sticky = offerId === null ? undefined : ranked.find(({ offer }) => offer.offerId === offerId)
  if (sticky?.state !== 'open' || sticky === ranked[0]) return ranked
  return isCloseToBest(sticky, tier, ranked) ? putFirst(ranked, sticky) : ranked
}

function isCloseToBest(sticky: Rank, tier: ServiceTier, ranked: readonly Rank[]): boolean {
  if (tier === 'cheapest') return sticky.costPicos === ranked[0]!.costPicos
  const slowestAllowedMs = Math.min(...ranked.map(loadMsOrInfinite)) * STICKY_MARGIN
  if (tier === 'fastest') return loadMsOrInfinite(sticky) <= slowestAllowedMs
  const best = Math.min(...ranked.map(({ costPicos }) => Number(costPicos)))
  return Number(sticky.costPicos) <= best * STICKY_MARGIN && loadMsOrInfinite(sticky) <= slowestAllowedMs
}

const loadMsOrInfinite = ({ predictedMs, inFlight }: Rank) => (predictedMs ?? Infinity) * (inFlight + 1)

function putFirst(ranked: readonly Rank[], first: Rank): readonly Rank[] {
  return [first, ...ranked.filter(rank => rank !== first)]
}

const isEjected = ({ state }: Rank) => state === 'ejected'
const isShort = (rank: Rank) => rank.isShort
const isNotShort = (rank: Rank) => !rank.isShort
const isCloud = ({ offer }: Rank) => offer.endpoint.kind === 'cloud'
const isNotCloud = (rank: Rank) => !isCloud(rank)
const draw = (count: number, random: () => number) => Math.min(count - 1, Math.floor(random() * count))
const compare = <T extends number | string>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
const by =
  <T>(key: (item: T) => number) =>
  (a: T, b: T) =>
    compare(key(a), key(b))
