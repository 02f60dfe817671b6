import { AUTO_MODEL, type ChatJob, type ServiceTier } from '../domain/chat-job.ts'
import { expectedInputTokens } from '../domain/expected-input.ts'
import type { Plan, Ticket } from '../domain/handoff.ts'
import type { HealthView } from '../domain/health.ts'
import { type OfferPrice, stepOf } from '../domain/offer-price.ts'
import { outputCap } from '../domain/output-cap.ts'
import type { AutoNote } from '../domain/routing-note.ts'
import type { NewcomerStanding, Rank } from './rank.ts'
import { tierOrder } from './tier-order.ts'

/** The inputs of routing besides the ticket. */
export interface RouteView {
  readonly health: HealthView
  /** Ranks cloud offers together with the others instead of after them. */
  readonly cloudCompetes?: boolean
  /** The offer that served this conversation recently; see affinity.ts. */
  readonly stickyOfferId?: string | null
  /** The model that served this conversation within the last day. */
  readonly stickyModelId?: string | null
  /** Whether a hoster's offer has proved itself. Undefined: all have. */
  readonly newcomer?: ((offerId: string) => NewcomerStanding) | undefined
  /** Chooses the models of `auto`. Undefined: they form one pool. */
  readonly auto?: ChooseModels | undefined
}

/**
 * Orders the models of a pool. Null: all its offers are ranked together.
 *
 * @param pool the healthy offers of the models, which may be none
 * @param stickyModelId the model that the conversation has used
 * @returns the offers of each model, the best model first
 */
export type ChooseModels = (
  job: ChatJob,
  pool: readonly Rank[],
  stickyModelId: string | null,
  random: () => number,
) => { readonly groups: readonly (readonly Rank[])[]; readonly note: AutoNote } | null

/** A plan with the figures behind it: one rank for each offer, in the same order. */
export interface RankedPlan extends Plan {
  readonly ranks: readonly Rank[]
  /** Why `auto` chose its model; null if it did not choose. */
  readonly auto: AutoNote | null
}

/**
 * Orders the eligible offers of a ticket. Pure: the same ticket, view and random numbers give the same plan.
 * Models keep the order of the ticket; `auto` stands for one pool of models, or for the models in the order of
 * `view.auto`. Within a model, local and hoster offers are ranked by the service tier, followed by cloud offers (or
 * together with them when `cloudCompetes`), followed by the offers that may cut the answer short, followed by newcomers.
 * Ejected offers, eligible only as a last resort, come at the very end, shortest ejection first.
 *
 * @param random uniform in [0, 1)
 */
export function route(ticket: Ticket, job: ChatJob, view: RouteView, random: () => number): RankedPlan {
  const all = rankAll(ticket, job, view, random)
  // The usual case in a small installation. There is nothing to decide.
  if (all.length === 1) return { ticket, offers: ticket.eligible, ranks: all, auto: null }
  const { serviceTier } = job.constraints
  const lastResort = all.filter(isEjected).toSorted(by(({ offer }) => view.health.ejectedForMs(offer.offerId)))
  const healthy = lastResort.length === 0 ? all : all.filter(rank => !isEjected(rank))
  const rankPool = (pool: readonly Rank[]) => {
    const [held, ready] = partition(pool, isHeldBack)
    const ranked = explore(serviceTier, tierOrder[serviceTier](ready, random), random)
    const stuck = stickTo(view.stickyOfferId ?? null, serviceTier, ranked)
    return held.length === 0 ? stuck : [...stuck, ...tierOrder[serviceTier](held, random)]
  }
  const rankKinds = (group: readonly Rank[]) =>
    partition(group, isShort)
      .toReversed()
      .flatMap(part => (view.cloudCompetes ? [part] : partition(part, isCloud).toReversed()))
      .flatMap(rankPool)
  const rankModel = (group: readonly Rank[]) => {
    const [newcomers, others] = partition(group, isNewcomer)
    if (newcomers.length === 0 || others.length === 0) return rankKinds(group)
    return admitNewcomer(serviceTier, rankKinds(others), rankKinds(newcomers), random)
  }
  const { groups, auto } = groupByModel(ticket, job, healthy, view, random)
  const ranks = groups.flatMap(rankModel).concat(lastResort)
  return { ticket, offers: ranks.map(({ offer }) => offer), ranks, auto }
}

function rankAll(ticket: Ticket, job: ChatJob, { health, newcomer }: RouteView, random: () => number): Rank[] {
  const use = expectedUse(job, ticket.maxTokens)
  const request = { stream: job.stream, outputTokens: ticket.maxTokens, inputTokens: use.inputTokens }
  return ticket.eligible.map((offer): Rank => {
    const { offerId, endpoint, capacity } = offer
    const isHoster = endpoint.kind === 'hoster'
    const maxTokens = outputCap(offer, job, ticket.maxTokens)
    const reading = health.read(offerId, request, { isLearned: isHoster, capacity })
    return {
      offer,
      maxTokens,
      isShort: maxTokens < Math.min(ticket.maxTokens, AMPLE_OUTPUT_TOKENS),
      costPicos: expectedCostPicos(offer.price, use),
      predictedMs: reading.predictedMs,
      isMeasured: reading.isMeasured,
      trust: isHoster ? (endpoint.trustScore ?? 0) : 1,
      inFlight: reading.inFlight,
      state: reading.state,
      isHeldBack: reading.share < 1 && (reading.share === 0 || random() >= reading.share),
      newcomer: isHoster && newcomer !== undefined ? newcomer(offerId) : 'none',
    }
  })
}

/** The expected tokens of a request. They are the same for every offer, so that only prices are compared. */
export interface ExpectedUse {
  readonly inputTokens: number
  readonly outputTokens: number
}

/**
 * Estimates the tokens of a request: those of the prompt, and a typical answer.
 *
 * @param maxTokens per choice, as the ticket allows
 */
export function expectedUse(job: ChatJob, maxTokens: number): ExpectedUse {
  return {
    inputTokens: expectedInputTokens(job),
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

/**
 * Groups offers by model, in the order in which the models are tried. The group of `auto` gets the offers of all models
 * that are not named, in one pool, or in groups in the order of `view.auto`.
 */
function groupByModel(
  { models }: Ticket,
  job: ChatJob,
  ranks: readonly Rank[],
  { auto, stickyModelId = null }: RouteView,
  random: () => number,
): { groups: readonly (readonly Rank[])[]; auto: AutoNote | null } {
  if (models.length === 1 && models[0] !== AUTO_MODEL) return { groups: [ranks], auto: null }
  const named = new Set(models)
  let note: AutoNote | null = null
  const groups = [...named].flatMap(model => {
    if (model !== AUTO_MODEL) return [ranks.filter(({ offer }) => offer.modelId === model)]
    const pool = ranks.filter(({ offer }) => !named.has(offer.modelId))
    const choice = auto?.(job, pool, stickyModelId, random) ?? null
    if (choice === null) return [pool]
    note = choice.note
    return choice.groups
  })
  return { groups, auto: note }
}

/**
 * The share of requests that tries an offer first that no answer of the last minute has measured, so that `fastest` and
 * `max_latency_ms` can use new offers, and notice when a slow one has become fast.
 */
const EXPLORED = 0.03

function explore(tier: ServiceTier, ranked: readonly Rank[], random: () => number): readonly Rank[] {
  if (tier === 'cheapest' || ranked.length < 2) return ranked
  const unmeasured = ranked.filter(({ isMeasured }) => !isMeasured)
  if (unmeasured.length === 0 || unmeasured.length === ranked.length || random() >= EXPLORED) return ranked
  return putFirst(ranked, unmeasured[draw(unmeasured.length, random)]!)
}

/** The share of a model's requests that newcomers get together, as long as the model has other offers. */
const NEWCOMER_SHARE = 0.01

/** Puts newcomers last, except in their share of the requests. `cheapest` never pays more for one. */
function admitNewcomer(
  tier: ServiceTier,
  ranked: readonly Rank[],
  newcomers: readonly Rank[],
  random: () => number,
): readonly Rank[] {
  const all = [...ranked, ...newcomers]
  const open = newcomers.filter(({ newcomer, isHeldBack }) => newcomer === 'open' && !isHeldBack)
  if (open.length === 0 || random() >= NEWCOMER_SHARE) return all
  const tried = open[draw(open.length, random)]!
  return tier === 'cheapest' && tried.costPicos > ranked[0]!.costPicos ? all : putFirst(all, tried)
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
const isHeldBack = (rank: Rank) => rank.isHeldBack
const isNewcomer = ({ newcomer }: Rank) => newcomer !== 'none'
const isCloud = ({ offer }: Rank) => offer.endpoint.kind === 'cloud'

/** Splits ranks into those that match, and the others. Both keep their order. */
function partition(ranks: readonly Rank[], matches: (rank: Rank) => boolean): [readonly Rank[], readonly Rank[]] {
  const matching = ranks.filter(matches)
  return matching.length === 0 ? [NO_RANKS, ranks] : [matching, ranks.filter(rank => !matches(rank))]
}

const NO_RANKS: readonly Rank[] = []
const draw = (count: number, random: () => number) => Math.min(count - 1, Math.floor(random() * count))
const compare = <T extends number | string>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
const by =
  <T>(key: (item: T) => number) =>
  (a: T, b: T) =>
    compare(key(a), key(b))
