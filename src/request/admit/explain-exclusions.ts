import type { ChatJob, ConstraintName } from '../../base/domain/chat-job.ts'
import { MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { fieldNames } from '../../base/domain/field-names.ts'
import type { Exclusion, ExclusionReason } from '../../base/domain/handoff.ts'
import { LATENCY_SAMPLE_AGE_MS_MAX, LATENCY_SAMPLES_MIN } from '../../base/domain/health.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import { type Offer, serves, TRUSTED_ABOVE } from '../../base/domain/offer.ts'
import { heldNanos } from '../../base/domain/request-bounds.ts'
import { excessAt } from '../../base/domain/vendor-counts.ts'
import { valueAt } from '../../base/runtime/collections.ts'

/**
 * Builds the refusal of a request that no offer may serve: how many offers each constraint excluded, and what to do.
 * Names no server and no address. The code is `max_cost_too_low` when a higher `max_cost_usd` would let it run,
 * `context_length_exceeded` when the length of the prompt alone ruled out every offer, `feature_not_supported` when no
 * offer could answer the request whatever its constraints are, `invalid_value` when no offer of the model serves the
 * endpoint, and `no_eligible_offer` otherwise. The caller can fix all but the last.
 *
 * @param candidates the offers that were considered
 */
export function explainExclusions(
  excluded: readonly Exclusion[],
  candidates: readonly Offer[],
  job: ChatJob,
): ApiError {
  if (excluded.length === 0) {
    return new ApiError('no_eligible_offer', {
      message: 'No server offers this model right now; you were not charged. Retry later.',
    })
  }
  if (!candidates.some(offer => serves(offer, job.task))) {
    return new ApiError('invalid_value', {
      param: 'model',
      message: `The model \`${job.model}\` does not serve ${job.task}. GET /v1/models lists the features of each model.`,
    })
  }
  const why = reasonsOf(excluded, job)
  const { input } = fieldNames(job)
  const leastNanos = lowestCostNanos(excluded, candidates, job)
  if (leastNanos !== null) {
    return new ApiError('max_cost_too_low', {
      param: 'max_cost_usd',
      message: `max_cost_usd${sourceText('max_cost_usd', job)} is ${usdText(job.maxCostNanos!)}, but ${job.choices === 0 ? 'the input' : 'the prompt with one output token'} may cost ${usdText(leastNanos)} USD at the cheapest offer: ${why}. You were not charged. Raise max_cost_usd or shorten the ${input}.`,
    })
  }
  // Both are checked before the constraints, so an offer with another reason has the features and the context.
  const reasons = new Set(excluded.map(({ reason }) => reason))
  if (!reasons.isSubsetOf(unservable)) {
    return new ApiError('no_eligible_offer', {
      message: `No server may serve this request: ${why}. You were not charged. Relax one of these constraints and send the request again.`,
    })
  }
  if (reasons.has('feature_missing')) {
    const missing = [...job.features].filter(feature => !candidates.some(({ features }) => features.has(feature)))
    const part = job.source?.nativePart
    const native =
      part === undefined ? '' : `; only a server of the dialect ${job.source?.dialect} understands "${part}"`
    const tool = job.source?.pictureTool
    const picture =
      tool === undefined || !missing.includes('images') ? '' : `, which the results of the tool "${tool}" are`
    const excess = candidates.map(offer => excessAt(offer, job)).find(each => each !== null)
    const counted = excess === undefined ? '' : `; the request has ${excess}`
    const which = (missing.length === 0 ? '' : `; none has ${missing.join(' or ')}${picture}`) + native + counted
    return new ApiError('feature_not_supported', {
      message: `No server of this model can answer this request: ${why}${which}. You were not charged. Send it without the feature, or choose a model that has it: GET /v1/models lists the features of each.`,
    })
  }
  return new ApiError('context_length_exceeded', {
    param: input,
    // Clients such as LangChain recognise a prompt that is too long by this text.
    message: `The request exceeds the context window: ${why}. You were not charged. Shorten the ${input}.`,
  })
}

const unservable: ReadonlySet<ExclusionReason> = new Set(['context_too_small', 'feature_missing'])

function reasonsOf(excluded: readonly Exclusion[], job: ChatJob): string {
  const counts = Map.groupBy(excluded, exclusion => exclusion.reason)
  const parts = order
    .filter(reason => counts.has(reason))
    .map(reason => {
      const count = valueAt(counts, reason).length
      const [one, many, why] = phrases[reason]
      return `${why}${sourceText(reason, job)} excluded ${count} ${count === 1 ? one : many}`
    })
  return parts.join('; ')
}

/** Returns where a constraint came from, when the body alone did not set it. */
function sourceText(reason: ExclusionReason, { constraintSources }: ChatJob): string {
  const source = constraintSources?.[reason as ConstraintName]
  return source === undefined ? '' : source === 'key' ? ' of the API key' : ' of a header'
}

/**
 * Returns the smallest hold at the cheapest offer that only `max_cost_usd` rules out; null when it rules out
 * none.
 */
function lowestCostNanos(excluded: readonly Exclusion[], candidates: readonly Offer[], job: ChatJob): Nanos | null {
  const tooExpensive = new Set(excluded.filter(({ reason }) => reason === 'max_cost_usd').map(({ offerId }) => offerId))
  let lowest: Nanos | null = null
  for (const offer of candidates) {
    if (!tooExpensive.has(offer.offerId)) continue
    const cost = heldNanos(offer, job, job.choices)
    if (lowest === null || cost < lowest) lowest = cost
  }
  return lowest
}

const phrases: Record<ExclusionReason, readonly [one: string, many: string, why: string]> = {
  context_too_small: ['offer', 'offers', 'the length of the prompt'],
  feature_missing: [
    'offer',
    'offers',
    "a feature the request uses (its endpoint, tools or their number, images, audio, stop sequences, a JSON schema, dimensions, citations or a toolset of one vendor's models)",
  ],
  max_input_usd_per_million: ['offer', 'offers', 'max_input_usd_per_million'],
  max_output_usd_per_million: ['offer', 'offers', 'max_output_usd_per_million'],
  privacy_mode: ['cloud offer', 'cloud offers', 'privacy_mode'],
  trusted_only: ['hoster offer', 'hoster offers', `trusted_only (trust_score above ${TRUSTED_ABOVE})`],
  max_latency_ms: [
    'hoster offer',
    'hoster offers',
    `max_latency_ms (slower, or fewer than ${LATENCY_SAMPLES_MIN} answers in the last ${LATENCY_SAMPLE_AGE_MS_MAX / MINUTE_MS} minutes to predict it from)`,
  ],
  deny_hosters: ['hoster offer', 'hoster offers', 'deny_hosters'],
  allow_hosters: ['hoster offer', 'hoster offers', 'allow_hosters'],
  max_cost_usd: ['offer', 'offers', 'max_cost_usd'],
  budget_spent: ['offer', 'offers', 'a budget of the operator that is spent'],
  endpoint_ejected: ['offer', 'offers', 'recent failures'],
}

const order = Object.keys(phrases) as ExclusionReason[]
