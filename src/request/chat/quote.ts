import type { Caller } from '../../base/domain/caller.ts'
import { AUTO_MODEL, type ChatJob } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Ticket } from '../../base/domain/handoff.ts'
import { billedCost, pricesFor, usd, usdPerMillion } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { heldNanos } from '../../base/domain/request-bounds.ts'
import { elementAt, valueAt } from '../../base/runtime/collections.ts'
import { describeAuto } from '../../wire/api/auto-note.ts'
import type { ChatQuote } from '../../wire/api/chat-quote-schema.ts'
import { countPromptTokens } from '../../wire/tokens/count-tokens.ts'
import { previewAdmission } from '../admit/preview-admission.ts'
import type { Rank } from '../route/rank.ts'
import { expectedUse, route } from '../route/route.ts'
import type { CompleteDeps } from './complete.ts'

/**
 * Answers a `dry_run`: which servers would serve the request, in which order, and at what cost. Takes the same
 * steps as `complete` up to the hold. Its only effect is that the request counts against the limits. The order
 * of `balanced` and `fastest` is random, so a quote shows one possible order.
 */
export async function quote(
  deps: Pick<CompleteDeps, 'admit' | 'route' | 'affinity' | 'random'>,
  caller: Caller,
  asked: ChatJob,
  requestId: string,
): Promise<ChatQuote> {
  const preview = await previewAdmission(deps.admit, caller, asked, requestId)
  const { models, candidates, eligible, excluded, verdict, job } = preview
  const offers = new Map(candidates.map(offer => [offer.offerId, offer]))
  const common = { object: 'chat.completion.quote' as const, id: requestId, model: job.model }
  const notEligible = excluded.map(({ offerId, reason }) => ({ ...describeServer(valueAt(offers, offerId)), reason }))
  if (verdict instanceof ApiError) {
    const { code, message, param } = verdict
    const noCost = {
      max_tokens: null,
      max_tokens_clamped_by: null,
      expected: null,
      worst_case_cost_usd: null,
      hold_usd: null,
    }
    return {
      ...common,
      ...noCost,
      auto: null,
      candidates: [],
      excluded: notEligible,
      refusal: { code, message, param },
    }
  }

  const { maxTokens, wantNanos, clampedBy } = verdict
  /** A task without choices generates no tokens. */
  const limitOf = (tokens: number) => (job.choices === 0 ? 0 : tokens)
  const ticket: Ticket = {
    requestId,
    // A quote holds no money, so its ticket cannot be settled.
    hold: { leaseId: requestId, nanos: wantNanos, isOpen: false },
    caller,
    startedAtEpochMs: deps.admit.clock.epochMs(),
    startedMonotonicMs: deps.admit.clock.monotonicMs(),
    label: null,
    models,
    eligible,
    excluded,
    maxTokens,
    clamp: null,
  }
  const stickyOfferId = eligible.length > 1 ? deps.affinity.find(caller.customerId, job) : null
  const health = deps.admit.health.of(caller.customerId)
  const stickyModelId = models.includes(AUTO_MODEL) ? deps.affinity.findModel(caller.customerId, job) : null
  const view = { ...deps.route, health, stickyOfferId, stickyModelId }
  const { ranks, auto } = route(ticket, job, view, deps.random)
  const inputTokens = countPromptTokens(job, job.promptLength)
  /** No more than the server may generate: the worst case is no better than what is expected. */
  const expectedAt = ({ offer, maxTokens }: Rank) => {
    const { outputTokens } = expectedUse(job, maxTokens)
    return { outputTokens, usd: usd(billedCost(offer.price, inputTokens, outputTokens, null).nanos) }
  }
  const expected = expectedAt(elementAt(ranks, 0))
  return {
    ...common,
    max_tokens: limitOf(maxTokens),
    max_tokens_clamped_by: clampedBy ?? null,
    expected: { cost_usd: expected.usd, input_tokens: inputTokens, output_tokens: expected.outputTokens },
    worst_case_cost_usd: usd(wantNanos),
    hold_usd: usd(wantNanos),
    auto: auto && describeAuto(auto),
    candidates: ranks.map((candidate, index) => {
      const { offer, maxTokens, predictedMs, inFlight, state } = candidate
      return {
        rank: index + 1,
        ...describeServer(offer),
        max_tokens: limitOf(maxTokens),
        price: describePrice(offer, inputTokens),
        expected_cost_usd: expectedAt(candidate).usd,
        worst_case_cost_usd: usd(heldNanos(offer, job, maxTokens * job.choices)),
        predicted_ms: predictedMs === null ? null : Math.round(predictedMs),
        trust_score: offer.endpoint.kind === 'hoster' ? (offer.endpoint.shownTrust ?? 0) : null,
        in_flight: inFlight,
        state,
      }
    }),
    excluded: notEligible,
    refusal: null,
  }
}

function describePrice(offer: Offer, inputTokens: number) {
  const { price, parts } = pricesFor(offer.price, inputTokens)
  return {
    group: offer.priceGroup ?? null,
    version: offer.priceVersion ?? null,
    input_usd_per_million: usdPerMillion(price.inputPicoPerToken),
    output_usd_per_million: usdPerMillion(price.outputPicoPerToken),
    parts: parts.map(({ kind, picoPerToken }) => ({ kind, usd_per_million: usdPerMillion(picoPerToken) })),
  }
}

function describeServer({ endpoint, modelId }: Offer) {
  return {
    model: modelId,
    provider: endpoint.kind,
    endpoint: endpoint.endpointId,
    hoster_id: endpoint.hosterId,
    hoster_name: endpoint.hosterId === null ? null : endpoint.name,
  }
}
