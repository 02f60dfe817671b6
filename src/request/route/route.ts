import { AUTO_MODEL, type ChatJob, expectedInputTokens } from '../../base/domain/chat-job.ts'
import type { Plan, Ticket } from '../../base/domain/handoff.ts'
import type { HealthView } from '../../base/domain/health.ts'
import { type OfferPrice, stepOf, usdPerMillion } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { limitPercent, type PriceLimits, standardPriceLimits } from '../../base/domain/price-limits.ts'
import { clampAt, outputCap } from '../../base/domain/request-bounds.ts'
import type { AutoNote, NotedConstraints, NotedPrice, NotedRank, RoutingNote } from '../../base/domain/routing-note.ts'
import { addHeldBack, limitPicos, lowestCost, priceBands, splitLopsided } from './price-order.ts'
import { admitNewcomer, explore, stickTo } from './put-first.ts'
import { isCloud, type NewcomerStanding, partition, type Rank } from './rank.ts'
import { tierOrder } from './tier-order.ts'

/** The inputs of routing besides the ticket. */
export interface RouteView {
  readonly health: HealthView
  /** Ranks cloud offers together with the others of comparable price instead of after them. */
  readonly cloudCompetes?: boolean
  /** How much more than the cheapest offer the first one may cost. Undefined: the standard limits. */
  readonly priceLimits?: PriceLimits
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
 * `view.auto`. Within a model, offers of comparable price come first, then more expensive ones: see `priceBands`. Among
 * them, those that speak the client's dialect come first if it has tools of its own; local and hoster offers are ranked by the service tier, followed by cloud offers (or together with them when
 * `cloudCompetes`). Offers that may cut the answer short come after these, and then newcomers. Ejected offers, eligible
 * only as a last resort, come at the very end, shortest ejection first.
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
  const { cloudCompetes = false, priceLimits = standardPriceLimits } = view
  const rankPool = (pool: readonly Rank[]) => {
    const ranked = explore(serviceTier, tierOrder[serviceTier](pool, random, cloudCompetes), random)
    return stickTo(view.stickyOfferId ?? null, serviceTier, ranked)
  }
  const splitKinds = (band: readonly Rank[]) =>
    cloudCompetes || serviceTier === 'cheapest' ? [band] : partition(band, isCloud).toReversed()
  const rankPrices = (part: readonly Rank[]) =>
    priceBands(part, serviceTier, priceLimits)
      .flatMap(band => splitLopsided(band, rank => fullCostPicos(rank, ticket, job), serviceTier, priceLimits))
      .flatMap(band => splitNative(band, job))
      .flatMap(splitKinds)
      .flatMap(rankPool)
  const rankPart = (part: readonly Rank[]) => {
    const [held, ready] = partition(part, isHeldBack)
    if (held.length === 0) return rankPrices(ready)
    return addHeldBack(rankPrices(ready), rankPrices(held), priceLimits.fastestPercent)
  }
  const rankParts = (group: readonly Rank[]) => partition(group, isShort).toReversed().flatMap(rankPart)
  const rankModel = (group: readonly Rank[]) => {
    const [newcomers, others] = partition(group, isNewcomer)
    if (newcomers.length === 0 || others.length === 0) return rankParts(group)
    const limit = limitPicos(lowestCost(others), limitPercent(serviceTier, priceLimits))
    return admitNewcomer(limit, rankParts(others), rankParts(newcomers), random)
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

/** Returns the cost if the answer is as long as it may be, in picodollars. */
function fullCostPicos({ offer, maxTokens }: Rank, { maxTokens: allowed }: Ticket, job: ChatJob): bigint {
  const outputTokens = Math.min(maxTokens, allowed) * job.choices
  return expectedCostPicos(offer.price, { inputTokens: expectedInputTokens(job), outputTokens })
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
 * Models are trained on the tools of their vendor, and elsewhere these become functions. So of comparable prices, offers
 * that speak the client's dialect come first if the request has such tools.
 */
function splitNative(band: readonly Rank[], { source, constraints }: ChatJob): readonly (readonly Rank[])[] {
  if (!source?.hasKnownTools) return [band]
  const split = (part: readonly Rank[]) =>
    partition(part, ({ offer }) => offer.speaks?.includes(source.dialect) === true)
  if (constraints.serviceTier !== 'cheapest') return split(band)
  // It promises the order of prices, so only equal ones are comparable.
  const costs = [...new Set(band.map(({ costPicos }) => costPicos))].toSorted(compare)
  return costs.flatMap(cost => split(band.filter(({ costPicos }) => costPicos === cost)))
}

const isEjected = ({ state }: Rank) => state === 'ejected'
const isShort = (rank: Rank) => rank.isShort
const isHeldBack = (rank: Rank) => rank.isHeldBack
const isNewcomer = ({ newcomer }: Rank) => newcomer !== 'none'
const compare = <T extends number | string | bigint>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
const by =
  <T>(key: (item: T) => number) =>
  (a: T, b: T) =>
    compare(key(a), key(b))

/** What routing knew besides the ticket. */
interface NotedView {
  readonly stickyOfferId: string | null
  readonly cloudCompetes: boolean
  readonly auto?: AutoNote | null
  readonly priceLimits?: PriceLimits | undefined
  /** Fields of the request that were not sent. */
  readonly droppedFields?: readonly string[]
  /** Fields that were sent with other values. */
  readonly changedFields?: readonly string[]
  /** Where the answer breaks the client's schema. */
  readonly schemaViolation?: string | undefined
  /** The id of its trace. Null or absent: none. */
  readonly traceId?: string | null
}

/**
 * Builds the explanation of the choice for the receipt. Null when there was no choice and no trace, so installations
 * with a single server pay nothing for it.
 *
 * @param ranks null when the request ended before its offers were ranked
 * @param served the offer that answered, or null
 */
export function routingNote(
  ticket: Ticket,
  job: ChatJob,
  ranks: readonly Rank[] | null,
  served: Offer | null,
  view: NotedView,
): RoutingNote | null {
  const { droppedFields = [], changedFields = [] } = view
  const constraints = notedConstraints(job)
  const { creditWaitedMs } = ticket
  const isPlain =
    !creditWaitedMs && ticket.eligible.length === 1 && ticket.excluded.length === 0 && job.model !== AUTO_MODEL
  const clamp = clampAt(ticket, job, served)
  const isAsSent = droppedFields.length === 0 && changedFields.length === 0
  const { traceId = null } = view
  if (isPlain && constraints === NO_CONSTRAINTS && clamp === null && isAsSent)
    return traceId === null ? null : { model: job.model, constraints, ranked: [], excluded: [], traceId }
  const ranked: readonly NotedRank[] =
    ranks?.slice(0, OFFERS_NOTED).map(notedRank) ??
    ticket.eligible
      .slice(0, OFFERS_NOTED)
      .map(({ offerId, endpoint }) => ({ offerId, provider: endpoint.kind }) satisfies NotedRank)
  const excluded = ticket.excluded.slice(0, OFFERS_NOTED)
  const price = notedPrice(ranks, served, job, view.priceLimits ?? standardPriceLimits)
  const leftOut = ticket.eligible.length - ranked.length + (ticket.excluded.length - excluded.length)
  return {
    model: job.model,
    constraints,
    ...(constraints !== NO_CONSTRAINTS && job.constraintSources && { sources: job.constraintSources }),
    ranked,
    excluded,
    ...(clamp !== null && { clamp }),
    ...(price !== null && { price }),
    ...(leftOut > 0 && { leftOut }),
    ...(droppedFields.length > 0 && { droppedFields: notedFields(droppedFields) }),
    ...(changedFields.length > 0 && { changedFields: notedFields(changedFields) }),
    ...(view.schemaViolation !== undefined && { schemaViolation: view.schemaViolation }),
    ...(view.stickyOfferId !== null && view.stickyOfferId === ranked[0]?.offerId && { isSticky: true }),
    ...(view.cloudCompetes && { cloudCompetes: true }),
    ...(view.auto && { auto: view.auto }),
    ...(creditWaitedMs && { creditWaitedMs }),
    ...(traceId !== null && { traceId }),
  }
}

/**
 * Maximum length of each list. In a large market `auto` has hundreds of candidates; 24 keep the row at about
 * 4 kB.
 */
const OFFERS_NOTED = 24

/** The names come from the client: not hundreds of them, and none of the length of a prompt. */
function notedFields(names: readonly string[]): readonly string[] {
  return names.slice(0, OFFERS_NOTED).map(name => name.slice(0, FIELD_NAME_MAX))
}

const FIELD_NAME_MAX = 64

const NO_CONSTRAINTS: NotedConstraints = {}

function notedConstraints({ constraints, maxCostNanos }: ChatJob): NotedConstraints {
  const { maxInputPicoPerToken: maxInput, maxOutputPicoPerToken: maxOutput } = constraints
  const noted = {
    ...(constraints.serviceTier !== 'balanced' && { tier: constraints.serviceTier }),
    ...(constraints.privacyMode && { privacy_mode: true }),
    ...(constraints.trustedOnly && { trusted_only: true }),
    ...(constraints.maxLatencyMs !== null && { max_latency_ms: constraints.maxLatencyMs }),
    ...(constraints.fallbackModels.length > 0 && { fallback_models: constraints.fallbackModels }),
    ...(constraints.allowHosters !== null && { allow_hosters: [...constraints.allowHosters] }),
    ...(constraints.denyHosters.size > 0 && { deny_hosters: [...constraints.denyHosters] }),
    ...(maxCostNanos !== null && { max_cost_nanos: maxCostNanos.toString() }),
    ...(maxInput !== undefined && { max_input_usd_per_million: usdPerMillion(maxInput) }),
    ...(maxOutput !== undefined && { max_output_usd_per_million: usdPerMillion(maxOutput) }),
  }
  return Object.keys(noted).length === 0 ? NO_CONSTRAINTS : noted
}

/** Compares the offer that answered with the eligible offers of its model. Null if there is nothing to compare. */
function notedPrice(
  ranks: readonly Rank[] | null,
  served: Offer | null,
  { constraints }: ChatJob,
  limits: PriceLimits,
): NotedPrice | null {
  if (ranks === null || served === null) return null
  const ofModel = ranks.filter(({ offer }) => offer.modelId === served.modelId)
  const rank = ofModel.find(({ offer }) => offer === served)
  if (rank === undefined || ofModel.length === 1) return null
  const percent = limitPercent(constraints.serviceTier, limits)
  return {
    limitPercent: served.endpoint.kind === 'local' ? Math.max(percent, limits.localPercent) : percent,
    cheapestPicos: lowestCost(ofModel).toString(),
    servedPicos: rank.costPicos.toString(),
  }
}

function notedRank({ offer, costPicos, predictedMs, inFlight, state, isShort, isHeldBack, newcomer }: Rank): NotedRank {
  return {
    offerId: offer.offerId,
    provider: offer.endpoint.kind,
    costPicos: costPicos.toString(),
    predictedMs: predictedMs === null ? null : Math.round(predictedMs),
    // A receipt must not tell when an audit moved the score that routing used.
    trust: offer.endpoint.kind === 'hoster' ? (offer.endpoint.shownTrust ?? 0) : 1,
    inFlight,
    state,
    ...(isShort && { isShort }),
    ...(isHeldBack && { isHeldBack }),
    ...(newcomer !== 'none' && { isNewcomer: true as const }),
  }
}
