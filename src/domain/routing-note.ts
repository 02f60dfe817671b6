import type { RoutingConstraints } from './chat-job.ts'
import type { ClampReason, ExclusionReason } from './handoff.ts'
import type { OfferState } from './health.ts'
import type { ProviderKind } from './offer.ts'

/**
 * What a receipt tells of the choice of a server, as it stands in `usage_event.routing`. There is none where nothing was chosen:
 * one candidate, none excluded, nothing wished for. Plain JSON: picodollars are text.
 */
export interface RoutingNote {
  /** As asked for, `auto` included. */
  readonly model: string
  /** Those that differ from their defaults, under the names they have in a request. */
  readonly constraints: NotedConstraints
  /** In the order they were to be tried. Without figures where the request ended before they were ranked. */
  readonly ranked: readonly NotedRank[]
  readonly excluded: readonly NotedExclusion[]
  /** Of the output tokens per choice, when something lowered what was asked for (null: the default). */
  readonly clamp?: { readonly asked: number | null; readonly allowed: number; readonly by: ClampReason }
  /** How many more there were than the two lists hold. */
  readonly leftOut?: number
  /** The first one had served this conversation a moment before. */
  readonly isSticky?: true
  /** Cloud offers were ranked together with the others. */
  readonly cloudCompetes?: true
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
}

export interface NotedRank {
  readonly offerId: string
  readonly provider: ProviderKind
  readonly costPicos?: string
  readonly predictedMs?: number | null
  readonly trust?: number
  readonly inFlight?: number
  readonly state?: OfferState
}

export interface NotedExclusion {
  readonly offerId: string
  readonly provider: ProviderKind
  readonly reason: ExclusionReason
}
