import type { ChatJob } from './chat-job.ts'
import type { Offer } from './offer.ts'

/**
 * The most output tokens to ask this offer for, per choice, when the ticket allows `maxTokens`. An explicit limit of the caller is
 * sent as it stands. A default is cut to what the offer can still fit, because servers refuse prompt + max_tokens beyond their
 * context (vLLM: 400) and the caller never asked for that many.
 */
export function outputCap(offer: Offer, job: ChatJob, maxTokens: number): number {
  if (job.maxTokens !== null) return maxTokens
  return Math.max(1, Math.min(maxTokens, offer.maxOutputTokens, Math.max(contextRoom(offer, job), SMALLEST_ROOM)))
}

/** The most output tokens that likely fit into one choice of this offer beside the prompt; below 1 when the prompt alone is too long. */
export function outputRoom(offer: Offer, job: ChatJob): number {
  return Math.min(offer.maxOutputTokens, contextRoom(offer, job))
}

function contextRoom(offer: Offer, job: ChatJob): number {
  return offer.contextTokens - likelyInputTokens(job)
}

/** Below this an answer is useless anyway; the server decides whether the prompt fits. */
const SMALLEST_ROOM = 16

/** English has about 4 bytes a token, code 3; 0.35 tokens a byte errs towards leaving the prompt its space. */
const LIKELY_TOKENS_PER_BYTE = 0.35

function likelyInputTokens(job: ChatJob): number {
  const textBytes = job.inputTokensBound - job.mediaTokensBound
  return Math.ceil(textBytes * LIKELY_TOKENS_PER_BYTE) + job.mediaTokensBound
}
