import type { ChatJob, RoutingConstraints } from './chat-job.ts'
import type { ClampReason, ExclusionReason } from './handoff.ts'
import type { OfferState } from './health.ts'
import type { ProviderKind } from './offer.ts'

/**
 * Explains the choice of a server on a receipt; stored in `usage_event.routing`. A request has none when there was
 * nothing to explain: one candidate, no exclusions, no constraints and no dropped or changed fields. Plain JSON:
 * picodollars are text.
 */
export interface RoutingNote {
  /** The requested model, possibly `auto`. */
  readonly model: string
  /** The constraints that differ from their defaults, under their names in a request. */
  readonly constraints: NotedConstraints
  /** The constraints that a header or the key set or made stricter. */
  readonly sources?: NonNullable<ChatJob['constraintSources']>
  /** Offers in the planned order. They have no figures if the request ended before they were ranked. */
  readonly ranked: readonly NotedRank[]
  readonly excluded: readonly NotedExclusion[]
  readonly clamp?: NotedClamp
  /** Absent: no offer answered, or its model had no other. */
  readonly price?: NotedPrice
  /** Number of offers missing from the two lists because the lists are limited. */
  readonly leftOut?: number
  /** Fields of the body that the server did not get: at most as many as there are offers in a list. */
  readonly droppedFields?: readonly string[]
  /** Fields that the server got with other values than those of the client, because its vendor refuses these. */
  readonly changedFields?: readonly string[]
  /** Where the answer breaks the client's schema, of which the server got another. */
  readonly schemaViolation?: string
  /** The first offer had served this conversation shortly before. */
  readonly isSticky?: true
  /** Cloud offers were ranked together with the others. */
  readonly cloudCompetes?: true
  /** Why `auto` chose its model. */
  readonly auto?: AutoNote
  /** How long the request waited for credit that other requests of the customer held, ms. */
  readonly creditWaitedMs?: number
  /** The id of its trace. Absent: it has none. A note may consist of this and the model alone. */
  readonly traceId?: string
}

/** How `auto` ordered the models. */
export interface AutoNote {
  /** The class of the request, such as `code`. */
  readonly taskClass: string
  /** Why the first model is first. */
  readonly reason: AutoReason
  /** The quality that a model needed; null when none was asked for. */
  readonly qualityFloor: number | null
  /** The first models, in their order. */
  readonly models: readonly AutoRank[]
}

/** `conversation`: the same model as before. `explored`: drawn at random, as the operator allows. */
export const autoReasons = [
  'lowest_cost',
  'best_balance',
  'fastest',
  'best_quality',
  'conversation',
  'explored',
] as const
export type AutoReason = (typeof autoReasons)[number]

export interface AutoRank {
  readonly modelId: string
  /** Predicted quality of its answer, 0 to 1. */
  readonly quality: number
  /** Expected cost at its cheapest offer, picodollars as text. */
  readonly costPicos: string
  /** Higher is better. Its scale depends on the tier. */
  readonly score: number
}

/** How the price of the offer that answered compares with the cheapest eligible offer of its model. */
export interface NotedPrice {
  /** How much of the cheapest offer's cost the first offer may cost, in percent: the limit of the tier. */
  readonly limitPercent: number
  /** Expected costs, picodollars as text. */
  readonly cheapestPicos: string
  readonly servedPicos: string
}

/** How the output tokens per choice were lowered from the requested number (`asked` null: from the default). */
export interface NotedClamp {
  readonly asked: number | null
  readonly allowed: number
  readonly by: ClampReason
}

export interface NotedConstraints {
  readonly tier?: RoutingConstraints['serviceTier']
  readonly privacy_mode?: boolean
  readonly trusted_only?: boolean
  readonly max_latency_ms?: number
  readonly fallback_models?: readonly string[]
  readonly allow_hosters?: readonly string[]
  readonly deny_hosters?: readonly string[]
  /** Nano-USD. */
  readonly max_cost_nanos?: string
  readonly max_input_usd_per_million?: number
  readonly max_output_usd_per_million?: number
}

export interface NotedRank {
  readonly offerId: string
  readonly provider: ProviderKind
  readonly costPicos?: string
  readonly predictedMs?: number | null
  /** Of a hoster: as customers see it, not the one that decided. */
  readonly trust?: number
  readonly inFlight?: number
  readonly state?: OfferState
  /** Ranked after the others of its model because it generates fewer tokens than the request may use. */
  readonly isShort?: true
  /** Ranked after the others of its kind: see `Rank`. */
  readonly isHeldBack?: true
  /** Ranked after the other offers of its model because it has not proved itself. */
  readonly isNewcomer?: true
}

export interface NotedExclusion {
  readonly offerId: string
  readonly provider: ProviderKind
  readonly reason: ExclusionReason
}
