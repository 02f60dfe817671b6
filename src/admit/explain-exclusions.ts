import type { ErrorCode } from '../domain/errors.ts'
import type { Exclusion, ExclusionReason } from '../domain/handoff.ts'

/**
 * The public text for a request that no offer may serve: which wish excluded how many of what, and what to do.
 * Names no server and no address.
 */
export function explainExclusions(excluded: readonly Exclusion[]): string {
  if (excluded.length === 0) return 'No server offers this model right now; you were not charged. Retry later.'
  const counts = Map.groupBy(excluded, exclusion => exclusion.reason)
  const parts = order
    .filter(reason => counts.has(reason))
    .map(reason => {
      const count = counts.get(reason)!.length
      const [one, many, why] = phrases[reason]
      return `${why} excluded ${count} ${count === 1 ? one : many}`
    })
  // Clients such as LangChain know a prompt that is too long by these words.
  const refusal = isBySize(excluded) ? 'The request exceeds the context window' : 'No server may serve this request'
  return `${refusal}: ${parts.join('; ')}. You were not charged. Relax one of these and send it again.`
}

/** `context_length_exceeded` when size alone ruled every offer out, which the caller can cure; `no_eligible_offer` otherwise. */
export function codeOfExclusions(excluded: readonly Exclusion[]): ErrorCode {
  return isBySize(excluded) ? 'context_length_exceeded' : 'no_eligible_offer'
}

/** The field to change where size alone ruled every offer out. */
export function paramOfExclusions(excluded: readonly Exclusion[]): string | undefined {
  if (!isBySize(excluded)) return undefined
  return excluded.every(({ reason }) => reason === 'output_too_small') ? 'max_tokens' : 'messages'
}

function isBySize(excluded: readonly Exclusion[]): boolean {
  const bySize = excluded.every(({ reason }) => reason === 'context_too_small' || reason === 'output_too_small')
  return excluded.length > 0 && bySize
}

const phrases: Record<ExclusionReason, readonly [one: string, many: string, why: string]> = {
  context_too_small: ['offer', 'offers', 'the length of messages plus max_tokens'],
  output_too_small: ['offer', 'offers', 'max_tokens'],
  feature_missing: ['offer', 'offers', 'a feature the request uses (tools, images, audio or a JSON schema)'],
  privacy_mode: ['cloud offer', 'cloud offers', 'privacy_mode'],
  trusted_only: ['hoster offer', 'hoster offers', 'trusted_only (trust_score above 0.8)'],
  max_latency_ms: ['hoster offer', 'hoster offers', 'max_latency_ms (slower, or too few measurements)'],
  deny_hosters: ['hoster offer', 'hoster offers', 'deny_hosters'],
  allow_hosters: ['hoster offer', 'hoster offers', 'allow_hosters'],
  endpoint_ejected: ['offer', 'offers', 'recent failures'],
}

const order = Object.keys(phrases) as ExclusionReason[]
