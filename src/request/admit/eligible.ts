import {
  AUTO_MODEL,
  type ChatJob,
  type DataRequest,
  expectedInputTokens,
  type Feature,
} from '../../base/domain/chat-job.ts'
import { modelNotAllowed, unknownModel } from '../../base/domain/errors.ts'
import type { Exclusion, ExclusionReason } from '../../base/domain/handoff.ts'
import type { HealthView } from '../../base/domain/health.ts'
import { stepOf } from '../../base/domain/money.ts'
import { type Offer, serves, TRUSTED_ABOVE } from '../../base/domain/offer.ts'
import { heldNanos, largestRoom } from '../../base/domain/request-bounds.ts'
import { dialectAt } from '../../base/domain/upstream-dialect.ts'
import { countsOfAll, excessAt } from '../../base/domain/vendor-counts.ts'
import type { Catalog } from '../../market/supply/catalog/catalog.ts'

export interface Candidates {
  /**
   * The models to try, in this order; `auto` stands for every model not named here, as one pool. Becomes part
   * of the ticket.
   */
  readonly models: readonly string[]
  /** The offers of these models in the same order, each once. */
  readonly offers: readonly Offer[]
}

/**
 * Returns every offer of the models that a job names, before constraints are applied. Throws ApiError
 * `model_not_found` (param `model`) when the catalog lacks the requested model, even if there are fallbacks:
 * a misspelt model must not be silently replaced. Unknown fallbacks are skipped, since a client's list may be
 * older than the catalog. `auto` picks the demo model only if there is no other model.
 *
 * @param allowedModels the models that the key may use, null for all. Another model is refused with 403
 *   `model_not_allowed`, other fallbacks are skipped, and `auto` picks among the allowed models
 */
export function candidatesFor(
  catalog: Catalog,
  job: ChatJob,
  allowedModels: ReadonlySet<string> | null = null,
): Candidates {
  const isAllowed = (id: string) => allowedModels === null || allowedModels.has(id)
  const asked = job.model
  // A model without a connected agent exists, but has no offer now.
  const isKnown =
    asked === AUTO_MODEL ? catalog.offers.length > 0 : isOffered(catalog, asked) || catalog.absent.has(asked)
  if (!isKnown) throw unknownModel(asked)
  if (asked !== AUTO_MODEL && !isAllowed(asked)) throw modelNotAllowed(asked)
  // Most requests name one model.
  if (asked !== AUTO_MODEL && job.constraints.fallbackModels.length === 0) {
    return { models: [asked], offers: catalog.offersOf(asked) }
  }
  const models = [...new Set([asked, ...job.constraints.fallbackModels])].filter(
    id => id === AUTO_MODEL || (isOffered(catalog, id) && isAllowed(id)),
  )
  const named = new Set(models)
  const offers = models.flatMap(id =>
    id === AUTO_MODEL
      ? autoPool(catalog.offers.filter(offer => isAllowed(offer.modelId) && serves(offer, job.task))).filter(
          ({ modelId }) => !named.has(modelId),
        )
      : catalog.offersOf(id),
  )
  return { models, offers }
}

/** Not by the summaries of models: those of a customer's own prices are made when a list is shown. */
const isOffered = (catalog: Catalog, modelId: string) => catalog.offersOf(modelId).length > 0

function autoPool(offers: readonly Offer[]): readonly Offer[] {
  const real = offers.filter(offer => !offer.endpoint.demo)
  return real.length > 0 ? real : offers
}

export interface Eligibility {
  /**
   * In the order of the candidates. Includes ejected offers only as a last resort; routing puts those at the
   * end.
   */
  readonly eligible: readonly Offer[]
  /** The other candidates, each with the first reason that ruled it out. */
  readonly excluded: readonly Exclusion[]
}

/**
 * Applies the constraints of a job to the candidates, in the order of the checks below. Pure; eligible + excluded =
 * candidates. Health is checked last, so that a refusal names the constraint rather than a temporary failure, and so
 * that the last resort (an ejected server rather than none) is an offer that the constraints allow.
 *
 * @param candidates the offers of the models in the order they are tried
 */
export function eligible(candidates: readonly Offer[], job: ChatJob, view: HealthView): Eligibility {
  const excluded: Exclusion[] = []
  const allowed = candidates.filter(offer => {
    // The cost is checked after all other constraints, so that raising max_cost_usd helps a caller that is asked to.
    const reason = firstObstacle(offer, job, view) ?? lastObstacle(offer, job)
    if (reason !== undefined) excluded.push({ offerId: offer.offerId, provider: offer.endpoint.kind, reason })
    return reason === undefined
  })
  const dropped = ejectedOffers(allowed, view)
  if (dropped.size === 0) return { eligible: allowed, excluded }
  for (const { offerId, endpoint } of dropped) {
    excluded.push({ offerId, provider: endpoint.kind, reason: 'endpoint_ejected' })
  }
  return { eligible: allowed.filter(offer => !dropped.has(offer)), excluded }
}

function firstObstacle(offer: Offer, job: ChatJob, view: HealthView): ExclusionReason | undefined {
  const { constraints } = job
  const { kind, hosterId, trustScore } = offer.endpoint
  if (!serves(offer, job.task)) return 'feature_missing'
  if (job.data !== undefined && isSeveralSearches(job.data) && hasRequestPrice(offer)) return 'context_too_small'
  // Between this bound and the likely number of tokens the model server decides. A max_tokens that does not fit is
  // lowered: see `outputCap`.
  if (largestRoom(offer, job) < 1) return 'context_too_small'
  if (!hasFeatures(offer, job)) return 'feature_missing'
  if (offer.speaks === undefined) {
    if (job.source?.isNativeOnly) return 'feature_missing'
  } else if (dialectAt(offer.speaks, job) === null) return 'feature_missing'
  if (hasMany(job) && excessAt(offer, job) !== null) return 'feature_missing'
  const above = priceAboveCap(offer, job)
  if (above !== undefined) return above
  if (kind === 'cloud') return constraints.privacyMode ? 'privacy_mode' : undefined
  if (kind === 'local') return undefined
  if (constraints.trustedOnly && !((trustScore ?? 0) > TRUSTED_ABOVE)) return 'trusted_only'
  if (constraints.maxLatencyMs !== null) {
    const predictedMs = view.predictMs(offer.offerId, {
      stream: job.stream,
      outputTokens: job.maxTokens,
      inputTokens: expectedInputTokens(job),
    })
    if (predictedMs === null || predictedMs > constraints.maxLatencyMs) return 'max_latency_ms'
  }
  if (hosterId !== null && constraints.denyHosters.has(hosterId)) return 'deny_hosters'
  if (constraints.allowHosters !== null && !(hosterId !== null && constraints.allowHosters.has(hosterId)))
    return 'allow_hosters'
  return undefined
}

function lastObstacle(offer: Offer, job: ChatJob): ExclusionReason | undefined {
  if (exceedsMaxCost(offer, job)) return 'max_cost_usd'
  return offer.isBudgetSpent ? 'budget_spent' : undefined
}

/** The prompt counts at its bound, since a longer one may have a higher price. */
function priceAboveCap({ price }: Offer, job: ChatJob): ExclusionReason | undefined {
  const { maxInputPicoPerToken: maxInput, maxOutputPicoPerToken: maxOutput } = job.constraints
  if (maxInput === undefined && maxOutput === undefined) return undefined
  const { inputPicoPerToken, outputPicoPerToken } =
    price.terms === undefined ? price : stepOf(price.terms, job.inputTokensBound).price
  if (maxInput !== undefined && inputPicoPerToken > maxInput) return 'max_input_usd_per_million'
  if (maxOutput !== undefined && outputPicoPerToken > maxOutput) return 'max_output_usd_per_million'
  return undefined
}

/** Clouds count a query with each 100 documents as one search. */
const DOCUMENTS_PER_SEARCH = 100

/** A price per request pays for one search, so a request for more would be sold below its cost. */
function isSeveralSearches(data: DataRequest): boolean {
  return data.task === 'rerank' && data.documents.length > DOCUMENTS_PER_SEARCH
}

function hasRequestPrice({ price }: Offer): boolean {
  return price.terms?.steps.some(step => step.perRequestPicos > 0n) ?? false
}

/** Whether a request may have more tools or stop sequences than a vendor takes. */
export function hasMany({ forward: { tools, stop } }: Pick<ChatJob, 'forward'>): boolean {
  if (Array.isArray(tools) && tools.length > countsOfAll.tools) return true
  if (typeof stop === 'string') return stop.length > countsOfAll.stopCharacters
  if (!Array.isArray(stop)) return false
  const characters = stop.reduce((sum, each) => sum + (typeof each === 'string' ? each.length : 0), 0)
  return stop.length > countsOfAll.stopSequences || characters > countsOfAll.stopCharacters
}

function hasFeatures(offer: Offer, job: ChatJob): boolean {
  if (job.features.size === 0) return true
  // Local servers do not report features of chat. None declared means unknown, and trying the operator's own server
  // costs little.
  if (job.task === 'chat' && offer.endpoint.kind === 'local' && offer.features.isDisjointFrom(chatFeatures)) return true
  return job.features.isSubsetOf(offer.features)
}

const chatFeatures: ReadonlySet<Feature> = new Set(['tools', 'images', 'audio', 'json_schema'])

/**
 * Whether the smallest possible hold, the prompt at its bound and one token for each choice, exceeds
 * `max_cost_usd`.
 */
function exceedsMaxCost(offer: Offer, job: ChatJob): boolean {
  return job.maxCostNanos !== null && heldNanos(offer, job, job.choices) > job.maxCostNanos
}

/**
 * At most this part of a model's hosters is dropped at a time: when most fail at once, the fault is more
 * likely ours.
 */
const EJECTED_PART_MAX = 0.5

/**
 * Returns the ejected offers to drop: at most half of a model's hosters and never all of a model's offers,
 * longest ejection first.
 */
function ejectedOffers(allowed: readonly Offer[], view: HealthView): ReadonlySet<Offer> {
  const ejected = allowed.filter(offer => view.state(offer.offerId) === 'ejected')
  if (ejected.length === 0) return noOffers
  const dropped = new Set<Offer>()
  for (const [modelId, ejectedOfModel] of Map.groupBy(ejected, offer => offer.modelId)) {
    const all = allowed.filter(offer => offer.modelId === modelId)
    const worstFirst = ejectedOfModel.toSorted((a, b) => view.ejectedForMs(b.offerId) - view.ejectedForMs(a.offerId))
    let hostersToDrop = Math.floor(all.filter(isHoster).length * EJECTED_PART_MAX)
    let remaining = all.length
    for (const offer of worstFirst) {
      if (remaining === 1 || (isHoster(offer) && hostersToDrop === 0)) continue
      if (isHoster(offer)) hostersToDrop--
      dropped.add(offer)
      remaining--
    }
  }
  return dropped
}

const noOffers: ReadonlySet<Offer> = new Set()
const isHoster = (offer: Offer) => offer.endpoint.kind === 'hoster'
