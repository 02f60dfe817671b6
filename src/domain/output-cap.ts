import type { ChatJob } from './chat-job.ts'
import type { Offer } from './offer.ts'

/**
 * Returns the most output tokens per choice to request from this offer when the ticket allows `maxTokens`. An
 * explicit limit of the caller is sent unchanged. A default is lowered to what fits into the context, because
 * servers refuse prompt + max_tokens beyond it (vLLM: 400) and the caller did not ask for that many.
 */
export function outputCap(offer: Offer, job: ChatJob, maxTokens: number): number {
  if (job.maxTokens !== null) return maxTokens
  return Math.max(1, Math.min(maxTokens, offer.maxOutputTokens, Math.max(contextRoom(offer, job), SMALLEST_ROOM)))
}

/**
 * Returns the most output tokens per choice that likely fit into this offer along with the prompt; below 1
 * when the prompt alone is too long.
 */
export function outputRoom(offer: Offer, job: ChatJob): number {
  return Math.min(offer.maxOutputTokens, contextRoom(offer, job))
}

function contextRoom(offer: Offer, job: ChatJob): number {
  return offer.contextTokens - likelyInputTokens(job)
}

/** An answer shorter than this is useless. Request at least this many tokens; the server decides whether they fit. */
const SMALLEST_ROOM = 16

/**
 * English has about 4 bytes a token, code 3. At 0.35 tokens a byte the estimate of a prompt is usually too high
 * rather than too low.
 */
const LIKELY_TOKENS_PER_BYTE = 0.35

function likelyInputTokens(job: ChatJob): number {
  const textBytes = job.inputTokensBound - job.mediaTokensBound
  return Math.ceil(textBytes * LIKELY_TOKENS_PER_BYTE) + job.mediaTokensBound
}
