import { AUTO_MODEL, type ChatJob } from '../../base/domain/chat-job.ts'
import type { Ticket } from '../../base/domain/handoff.ts'
import { usdPerMillion } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { limitPercent, type PriceLimits, standardPriceLimits } from '../../base/domain/price-limits.ts'
import { clampAt } from '../../base/domain/request-bounds.ts'
import type { AutoNote, NotedConstraints, NotedPrice, NotedRank, RoutingNote } from '../../base/domain/routing-note.ts'
import { lowestCost } from './price-order.ts'
import type { Rank } from './rank.ts'

/** What routing knew besides the ticket. */
interface NotedView {
  readonly stickyOfferId: string | null
  readonly cloudCompetes: boolean
  readonly auto?: AutoNote | null
  readonly priceLimits?: PriceLimits | undefined
  /** Fields of the request that were not sent. */
  readonly droppedFields?: readonly string[]
}

/**
 * Builds the explanation of the choice for the receipt. Null when there was no choice, so installations with
 * a single server pay nothing for it.
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
  const { droppedFields = [] } = view
  const constraints = notedConstraints(job)
  const { creditWaitedMs } = ticket
  const isPlain =
    !creditWaitedMs && ticket.eligible.length === 1 && ticket.excluded.length === 0 && job.model !== AUTO_MODEL
  const clamp = clampAt(ticket, job, served)
  if (isPlain && constraints === NO_CONSTRAINTS && clamp === null && droppedFields.length === 0) return null
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
    ...(view.stickyOfferId !== null && view.stickyOfferId === ranked[0]?.offerId && { isSticky: true }),
    ...(view.cloudCompetes && { cloudCompetes: true }),
    ...(view.auto && { auto: view.auto }),
    ...(creditWaitedMs && { creditWaitedMs }),
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
