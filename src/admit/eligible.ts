import type { ChatJob } from '../domain/chat-job.ts'
import type { Exclusion, ExclusionReason } from '../domain/handoff.ts'
import type { HealthView } from '../domain/health.ts'
import { costNanos } from '../domain/money.ts'
import type { Offer } from '../domain/offer.ts'

export interface Eligibility {
  /** In the order of the candidates. Ejected ones are among them only as a last resort; routing puts those at the end. */
  readonly eligible: readonly Offer[]
  /** The rest, each with the first reason that ruled it out. */
  readonly excluded: readonly Exclusion[]
}

/**
 * Applies the constraints of a job to the candidates, in the order of the checks below. Pure; eligible + excluded = candidates.
 * Being alive is asked last, so that a refusal names the wish rather than passing trouble, and so that the last resort
 * (an ejected server rather than none) is only ever chosen from what the constraints allow.
 *
 * @param candidates the offers of the models in the order they are tried
 */
export function eligible(candidates: readonly Offer[], job: ChatJob, view: HealthView): Eligibility {
  const excluded: Exclusion[] = []
  const willing = candidates.filter(offer => {
    // The cost is asked after all else, so that who is told to raise it can be served for more.
    const reason = firstObstacle(offer, job, view) ?? (exceedsMaxCost(offer, job) ? 'max_cost_usd' : undefined)
    if (reason !== undefined) excluded.push({ offerId: offer.offerId, provider: offer.endpoint.kind, reason })
    return reason === undefined
  })
  const dropped = ejectedOffers(willing, view)
  if (dropped.size === 0) return { eligible: willing, excluded }
  for (const { offerId, endpoint } of dropped) {
    excluded.push({ offerId, provider: endpoint.kind, reason: 'endpoint_ejected' })
  }
  return { eligible: willing.filter(offer => !dropped.has(offer)), excluded }
}

/** Trust must be above this, strictly: docs/routing.md promises it. */
const TRUSTED_ABOVE = 0.8

function firstObstacle(offer: Offer, job: ChatJob, view: HealthView): ExclusionReason | undefined {
  const { constraints } = job
  const { kind, hosterId, trustScore } = offer.endpoint
  if (fewestInputTokens(job) + (job.maxTokens ?? 1) > offer.contextTokens) return 'context_too_small'
  if (job.maxTokens !== null && job.maxTokens > offer.maxOutputTokens) return 'output_too_small'
  if (!isAble(offer, job)) return 'feature_missing'
  if (kind === 'cloud') return constraints.privacyMode ? 'privacy_mode' : undefined
  if (kind === 'local') return undefined
  if (constraints.trustedOnly && !((trustScore ?? 0) > TRUSTED_ABOVE)) return 'trusted_only'
  if (constraints.maxLatencyMs !== null) {
    const predictedMs = view.predictMs(offer.offerId, { stream: job.stream, outputTokens: job.maxTokens })
    if (predictedMs === null || predictedMs > constraints.maxLatencyMs) return 'max_latency_ms'
  }
  if (hosterId !== null && constraints.denyHosters.has(hosterId)) return 'deny_hosters'
  if (constraints.allowHosters !== null && !(hosterId !== null && constraints.allowHosters.has(hosterId)))
    return 'allow_hosters'
  return undefined
}

/**
 * `inputTokensBound` counts bytes, several times what a tokenizer makes of them; refusing on it would turn away prompts that fit.
 * So a prompt is refused only when it cannot fit even at 8 bytes a token, which common tokenizers stay under for running text
 * in any script (English 4 to 5, code 3, Hindi up to 7), and with its images free. Between the two the model server decides.
 */
const MOST_BYTES_PER_TOKEN = 8

function fewestInputTokens(job: ChatJob): number {
  return Math.floor((job.inputTokensBound - job.mediaTokensBound) / MOST_BYTES_PER_TOKEN)
}

function isAble(offer: Offer, job: ChatJob): boolean {
  // Local servers do not say what their models can do; nothing declared means not known, and the operator's own server is worth asking.
  if (offer.endpoint.kind === 'local' && offer.features.size === 0) return true
  return job.features.isSubsetOf(offer.features)
}

/** The prompt at its bound and one token for each choice, which is what the shortest answer would hold, is more than may be spent. */
function exceedsMaxCost({ price }: Offer, { inputTokensBound, choices, maxCostNanos }: ChatJob): boolean {
  return maxCostNanos !== null && costNanos(price, inputTokensBound, choices) > maxCostNanos
}

/** At most this part of a model's hosters is kept away at a time: when most fail at once, the fault is more likely ours. */
const MOST_EJECTED = 0.5

/** The ejected offers to leave out: at most half of a model's hosters, and never all of a model's offers; the least bad stay. */
function ejectedOffers(willing: readonly Offer[], view: HealthView): ReadonlySet<Offer> {
  const ejected = willing.filter(offer => view.state(offer.offerId) === 'ejected')
  if (ejected.length === 0) return nobody
  const dropped = new Set<Offer>()
  for (const [modelId, ill] of Map.groupBy(ejected, offer => offer.modelId)) {
    const all = willing.filter(offer => offer.modelId === modelId)
    const worstFirst = ill.toSorted((a, b) => view.ejectedForMs(b.offerId) - view.ejectedForMs(a.offerId))
    let hostersToDrop = Math.floor(all.filter(isHoster).length * MOST_EJECTED)
    let stay = all.length
    for (const offer of worstFirst) {
      if (stay === 1 || (isHoster(offer) && hostersToDrop === 0)) continue
      if (isHoster(offer)) hostersToDrop--
      dropped.add(offer)
      stay--
    }
  }
  return dropped
}

const nobody: ReadonlySet<Offer> = new Set()
const isHoster = (offer: Offer) => offer.endpoint.kind === 'hoster'
