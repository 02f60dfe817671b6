import { AUTO_MODEL } from '../../base/domain/chat-job.ts'
import type { Attempt, AttemptOutcome, ExclusionReason } from '../../base/domain/handoff.ts'
import { nanosOfPicos, usd } from '../../base/domain/money.ts'
import { type ProviderKind, splitOfferId } from '../../base/domain/offer.ts'
import type { NotedRank, RoutingNote } from '../../base/domain/routing-note.ts'
import type { LowerRankReason } from '../../wire/api/activity.ts'

export interface Candidate {
  readonly model: string
  readonly provider: ProviderKind
  readonly endpointId: string
  readonly status: 'answered' | 'failed' | 'not_tried' | 'excluded'
  readonly reason: AttemptOutcome | ExclusionReason | LowerRankReason | null
  /** From 1; null for excluded offers. */
  readonly rank: number | null
  readonly expected_cost_usd: number | null
  readonly predicted_ms: number | null
  readonly trust_score: number | null
  readonly in_flight: number | null
}

/**
 * Returns every ranked offer in the order of the plan, followed by the excluded offers. If `note` is null or lists none,
 * the router had only one candidate, which is read from the attempts.
 */
export function explainCandidates(note: RoutingNote | null, attempts: readonly Attempt[]): Candidate[] {
  const lastOutcome = new Map(attempts.map(({ offerId, outcome }) => [offerId, outcome]))
  if (note === null || note.ranked.length + note.excluded.length === 0) {
    const offers = new Map(attempts.map(({ offerId, provider }) => [offerId, { offerId, provider }]))
    return [...offers.values()].map((only, index) => ranked(only, index, lastOutcome.get(only.offerId), null))
  }
  const [best] = note.ranked
  const candidates = note.ranked.map((rank, index) =>
    ranked(
      rank,
      index,
      lastOutcome.get(rank.offerId),
      best === undefined || rank === best ? null : whyLower(note, rank, best),
    ),
  )
  const excluded = note.excluded.map(({ offerId, provider, reason }): Candidate => {
    return { ...placeOf(offerId), provider, status: 'excluded', reason, rank: null, ...noFigures }
  })
  return [...candidates, ...excluded]
}

function ranked(
  rank: NotedRank,
  index: number,
  tried: AttemptOutcome | undefined,
  whyLower: LowerRankReason | null,
): Candidate {
  return {
    ...placeOf(rank.offerId),
    provider: rank.provider,
    status: tried === undefined ? 'not_tried' : tried === 'answered' ? 'answered' : 'failed',
    reason: tried === undefined ? whyLower : tried === 'answered' ? null : tried,
    rank: index + 1,
    ...(rank.costPicos === undefined
      ? noFigures
      : {
          expected_cost_usd: usd(nanosOfPicos(BigInt(rank.costPicos))),
          predicted_ms: rank.predictedMs ?? null,
          trust_score: rank.provider === 'hoster' ? (rank.trust ?? null) : null,
          in_flight: rank.inFlight ?? null,
        }),
  }
}

function placeOf(offerId: string): Pick<Candidate, 'model' | 'endpointId'> {
  const { endpointId, modelId } = splitOfferId(offerId)
  return { model: modelId, endpointId }
}

const noFigures = { expected_cost_usd: null, predicted_ms: null, trust_score: null, in_flight: null }

/** Returns the first rule of src/request/route/route.ts by which an offer ranks below the first offer. */
function whyLower(note: RoutingNote, rank: NotedRank, first: NotedRank): LowerRankReason {
  const tier = note.constraints.tier ?? 'balanced'
  if (rank.state === 'ejected' && first.state !== 'ejected') return 'recent_failures'
  if (modelOrder(note, rank) > modelOrder(note, first)) return 'later_model'
  if (note.auto && modelIdOf(rank) !== modelIdOf(first)) return 'other_model'
  if (rank.isNewcomer && !first.isNewcomer) return 'newcomer'
  if (rank.isShort && !first.isShort) return 'shorter_output'
  if (isMoreExpensive(note, rank, first)) return 'more_expensive'
  if (!note.cloudCompetes && rank.provider === 'cloud' && first.provider !== 'cloud') return 'cloud_comes_last'
  if (rank.isHeldBack && !first.isHeldBack) return 'held_back'
  if (note.isSticky) return 'prompt_cache_elsewhere'
  if (tier === 'fastest') return 'slower_or_busier'
  if (tier === 'balanced') return 'drawn_later'
  return 'slower'
}

/** Whether the price alone keeps an offer behind: it is above what the tier allows beyond the first offer. */
function isMoreExpensive({ price }: RoutingNote, rank: NotedRank, first: NotedRank): boolean {
  const limitPercent = BigInt(price?.limitPercent ?? 100)
  return BigInt(rank.costPicos ?? 0) * 100n > BigInt(first.costPicos ?? 0) * limitPercent
}

const modelIdOf = ({ offerId }: NotedRank) => splitOfferId(offerId).modelId

/** Returns the position of an offer's model in the request. `auto` stands for every model that is not named. */
function modelOrder({ model, constraints }: RoutingNote, { offerId }: NotedRank): number {
  const models = [model, ...(constraints.fallback_models ?? [])]
  const named = models.indexOf(splitOfferId(offerId).modelId)
  return named === -1 ? models.indexOf(AUTO_MODEL) : named
}
