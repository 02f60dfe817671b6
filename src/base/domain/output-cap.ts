import type { ChatJob } from './chat-job.ts'
import type { Ticket } from './handoff.ts'
import type { Offer } from './offer.ts'
import type { NotedClamp } from './routing-note.ts'

/**
 * Returns the most output tokens per choice to request from this offer when the ticket allows `maxTokens`, at
 * least 1. Lowered to what the model generates and to what fits into its context along with the prompt. Servers
 * refuse more (vLLM and OpenAI: 400), and coding agents always ask for 32,000.
 */
export function outputCap(offer: Offer, job: ChatJob, maxTokens: number): number {
  const likelyRoom = offer.contextTokens - likelyInputTokens(job)
  // A default is lowered further: nobody asked for it, so an answer that may be cut is better than a refusal.
  const leastRoom = job.maxTokens === null ? SMALLEST_ROOM : Math.min(LOWERED_TO_MIN, largestRoom(offer, job))
  return Math.max(1, Math.min(maxTokens, offer.maxOutputTokens, Math.max(likelyRoom, leastRoom)))
}

/**
 * Returns why this offer was asked for fewer tokens than the request named, or than the default if `asked` is
 * null; null when it was not.
 */
export function clampAt(ticket: Ticket, job: ChatJob, offer: Offer | null): NotedClamp | null {
  const allowed = offer === null ? ticket.maxTokens : outputCap(offer, job, ticket.maxTokens)
  if (job.maxTokens !== null && allowed < ticket.maxTokens) return { asked: job.maxTokens, allowed, by: 'model' }
  return ticket.clamp && { asked: ticket.clamp.asked, allowed, by: ticket.clamp.by }
}

/**
 * The most output tokens that can fit into the context of this offer along with the prompt; below 1 when the
 * prompt alone is too long. `inputTokensBound` counts bytes, several times the number of tokens, so refusing by it
 * would turn away prompts that fit.
 */
export function largestRoom(offer: Offer, job: ChatJob): number {
  return offer.contextTokens - (job.longestInputTokensMin ?? fewestTokens(job.inputTokensBound - job.mediaTokensBound))
}

/** Returns the tokens that a text of so many bytes has at least. */
export function fewestTokens(textBytes: number): number {
  return Math.floor(textBytes / MOST_BYTES_PER_TOKEN)
}

/**
 * Common tokenizers stay below 8 bytes a token for running text in any script (English 4 to 5, code 3, Hindi up to
 * 7). Images are not counted.
 */
const MOST_BYTES_PER_TOKEN = 8

/** An answer shorter than this is useless. Request at least this many tokens; the server decides whether they fit. */
const SMALLEST_ROOM = 16

/**
 * An explicit limit is not lowered below this because of the estimate alone: a tool call of an agent that is cut
 * short is lost, and the server knows better whether so few tokens fit.
 */
const LOWERED_TO_MIN = 1_024

/**
 * English has about 4 bytes a token, code 3. At 0.35 tokens a byte the estimate of a prompt is usually too high
 * rather than too low.
 */
const LIKELY_TOKENS_PER_BYTE = 0.35

/** Returns the likely tokens of the prompt, usually too many. */
export function likelyInputTokens(job: ChatJob): number {
  const textBytes = job.inputTokensBound - job.mediaTokensBound
  return Math.ceil(textBytes * LIKELY_TOKENS_PER_BYTE) + job.mediaTokensBound
}
