import type { ChatJob } from '../domain/chat-job.ts'
import { ApiError } from '../domain/errors.ts'
import type { Exclusion, ExclusionReason } from '../domain/handoff.ts'
import { type HealthView, LATENCY_SAMPLE_AGE_MS_MAX, LATENCY_SAMPLES_MIN } from '../domain/health.ts'
import { costNanos, type Nanos, usdText } from '../domain/money.ts'
import type { Offer } from '../domain/offer.ts'
import { outputRoom } from '../domain/output-cap.ts'
import { eligible } from './eligible.ts'

/**
 * Builds the refusal of a request that no offer may serve: how many offers each constraint excluded, and what
 * to do. Names no server and no address. The code is `max_cost_too_low` when a higher `max_cost_usd` would
 * let it run, `context_length_exceeded` when size alone ruled out every offer, and `no_eligible_offer`
 * otherwise. The caller can fix the first two.
 *
 * @param candidates the offers that were considered
 */
export function explainExclusions(
  excluded: readonly Exclusion[],
  candidates: readonly Offer[],
  job: ChatJob,
  view: HealthView,
): ApiError {
  if (excluded.length === 0) {
    return new ApiError('no_eligible_offer', {
      message: 'No server offers this model right now; you were not charged. Retry later.',
    })
  }
  const why = reasonsOf(excluded)
  const leastNanos = lowestCostNanos(excluded, candidates, job)
  if (leastNanos !== null) {
    return new ApiError('max_cost_too_low', {
      param: 'max_cost_usd',
      message: `max_cost_usd is ${usdText(job.maxCostNanos!)}, but the prompt with one output token may cost ${usdText(leastNanos)} USD at the cheapest offer: ${why}. You were not charged. Raise max_cost_usd or shorten the messages.`,
    })
  }
  if (!isBySize(excluded)) {
    return new ApiError('no_eligible_offer', {
      message: `No server may serve this request: ${why}. You were not charged. Relax one of these constraints and send the request again.`,
    })
  }
  const room = job.maxTokens === null ? 0 : roomAmong(candidates, job, view)
  if (room < 1 && job.maxTokens !== null) {
    // Size is checked first. If a smaller max_tokens would only be refused for another reason, report that
    // reason now.
    const smallest = { ...job, maxTokens: 1 }
    const choice = eligible(candidates, smallest, view)
    if (choice.eligible.length === 0 && !isBySize(choice.excluded))
      return explainExclusions(choice.excluded, candidates, smallest, view)
  }
  const isByOutput = excluded.every(({ reason }) => reason === 'output_too_small')
  // Clients such as LangChain recognise a prompt that is too long by this text.
  const what = isByOutput
    ? 'No server generates this many tokens in one answer'
    : 'The request exceeds the context window'
  return new ApiError('context_length_exceeded', {
    param: room >= 1 ? 'max_tokens' : 'messages',
    message: `${what}: ${why}. You were not charged. ${
      room >= 1 ? `With these messages, max_tokens can be at most ${room}.` : 'Shorten the messages.'
    }`,
  })
}

/** Returns the largest max_tokens with which an offer may serve the job; 0 when no value works. */
function roomAmong(offers: readonly Offer[], job: ChatJob, view: HealthView): number {
  let most = 0
  for (const offer of offers) {
    const room = outputRoom(offer, job)
    if (room > most && eligible([offer], { ...job, maxTokens: room }, view).eligible.length > 0) most = room
  }
  return most
}

function reasonsOf(excluded: readonly Exclusion[]): string {
  const counts = Map.groupBy(excluded, exclusion => exclusion.reason)
  const parts = order
    .filter(reason => counts.has(reason))
    .map(reason => {
      const count = counts.get(reason)!.length
      const [one, many, why] = phrases[reason]
      return `${why} excluded ${count} ${count === 1 ? one : many}`
    })
  return parts.join('; ')
}

/**
 * Returns the smallest hold at the cheapest offer that only `max_cost_usd` rules out; null when it rules out
 * none.
 */
function lowestCostNanos(excluded: readonly Exclusion[], candidates: readonly Offer[], job: ChatJob): Nanos | null {
  const tooExpensive = new Set(excluded.filter(({ reason }) => reason === 'max_cost_usd').map(({ offerId }) => offerId))
  let lowest: Nanos | null = null
  for (const { offerId, price } of candidates) {
    if (!tooExpensive.has(offerId)) continue
    const cost = costNanos(price, job.inputTokensBound, job.choices)
    if (lowest === null || cost < lowest) lowest = cost
  }
  return lowest
}

function isBySize(excluded: readonly Exclusion[]): boolean {
  return excluded.every(({ reason }) => reason === 'context_too_small' || reason === 'output_too_small')
}

const phrases: Record<ExclusionReason, readonly [one: string, many: string, why: string]> = {
  context_too_small: ['offer', 'offers', 'the length of messages plus max_tokens'],
  output_too_small: ['offer', 'offers', 'max_tokens'],
  feature_missing: ['offer', 'offers', 'a feature the request uses (tools, images, audio or a JSON schema)'],
  privacy_mode: ['cloud offer', 'cloud offers', 'privacy_mode'],
  trusted_only: ['hoster offer', 'hoster offers', 'trusted_only (trust_score above 0.8)'],
  max_latency_ms: [
    'hoster offer',
    'hoster offers',
    `max_latency_ms (slower, or fewer than ${LATENCY_SAMPLES_MIN} answers in the last ${LATENCY_SAMPLE_AGE_MS_MAX / 60_000} minutes to predict it from)`,
  ],
  deny_hosters: ['hoster offer', 'hoster offers', 'deny_hosters'],
  allow_hosters: ['hoster offer', 'hoster offers', 'allow_hosters'],
  max_cost_usd: ['offer', 'offers', 'max_cost_usd'],
  endpoint_ejected: ['offer', 'offers', 'recent failures'],
}

const order = Object.keys(phrases) as ExclusionReason[]
