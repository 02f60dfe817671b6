import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { affordableTokensAt, heldNanos, outputCap } from '../../base/domain/request-bounds.ts'

export interface HoldRequest {
  /** Pays for `maxTokens` at the most expensive candidate. */
  readonly wantNanos: Nanos
  /**
   * The smallest useful hold: the prompt and a few tokens. Equal to `wantNanos` when the caller's limit must
   * not be lowered.
   */
  readonly floorNanos: Nanos
  /** Per choice. */
  readonly maxTokens: number
  /** Why `maxTokens` is lower than requested; absent when it is the requested number or the default. */
  readonly clampedBy?: 'max_cost_usd' | 'model'
}

/**
 * Computes the money to hold: the worst case over every candidate, including fallbacks, so that no retry can
 * cost more than the hold. Dispatch requests at most `outputCap(offer, job, maxTokens)` tokens from each offer.
 *
 * @param offers at least one; each can generate a token within the job's `maxCostNanos`, which the hold never
 *   exceeds
 * @param defaultMaxTokens output tokens per choice of a job without a limit. Both are lowered when no offer can
 *   generate that many
 */
export function holdFor(offers: readonly Offer[], job: ChatJob, defaultMaxTokens: number): HoldRequest {
  const wantedTokens = job.maxTokens ?? (job.isLimitOpen ? Number.POSITIVE_INFINITY : defaultMaxTokens)
  const askedTokens = Math.max(...offers.map(offer => outputCap(offer, job, wantedTokens)))
  const paidTokens = job.maxCostNanos === null ? askedTokens : maxTokensFor(offers, job, job.maxCostNanos)
  const maxTokens = Math.min(askedTokens, paidTokens)
  const wantNanos = highestCost(offers, job, maxTokens)
  const mayHoldLess = job.maxTokens === null || job.onInsufficient === 'clamp'
  const floorNanos = mayHoldLess ? highestCost(offers, job, Math.min(fewestTokens(job), maxTokens)) : wantNanos
  if (maxTokens < askedTokens) return { wantNanos, floorNanos, maxTokens, clampedBy: 'max_cost_usd' }
  if (job.maxTokens !== null && maxTokens < job.maxTokens) {
    return { wantNanos, floorNanos, maxTokens, clampedBy: 'model' }
  }
  return { wantNanos, floorNanos, maxTokens }
}

/**
 * Returns the most output tokens per choice that `budgetNanos` pays for at every candidate, rounded down; 0
 * when it does not pay for one, and Infinity when it pays for all that the candidates generate.
 */
export function maxTokensFor(offers: readonly Offer[], job: ChatJob, budgetNanos: Nanos): number {
  let most = Number.POSITIVE_INFINITY
  for (const offer of offers) {
    const tokens = affordableTokensAt(offer, job, budgetNanos)
    const affordable = Math.max(0, Math.floor(tokens / job.choices))
    if (affordable < outputCap(offer, job, most)) most = affordable
  }
  return most
}

/**
 * Returns the most output tokens per choice with which the job would be admitted for `budgetNanos`; 0 when
 * not even one token fits. A job with fewer tokens may become eligible for more offers, and its hold must
 * cover those too, even if they are more expensive.
 *
 * @param offers the offers that may serve the job unchanged
 * @param offersFor returns the offers that may serve the job with this many tokens
 */
export function affordableTokens(
  offers: readonly Offer[],
  offersFor: (maxTokens: number) => readonly Offer[],
  job: ChatJob,
  budgetNanos: Nanos,
): number {
  // Fewer tokens do not help a job that generates none.
  if (job.choices === 0) return 0
  // A job without a limit is refused only when the fewest useful tokens do not fit.
  let tokens = Math.min(maxTokensFor(offers, job, budgetNanos), job.maxTokens ?? fewestTokens(job))
  while (tokens > 0) {
    const serving = offersFor(tokens)
    // `serving` is empty when not even this many tokens fit into a context; a job without a limit is admitted
    // even then. With a limit, each step adds an offer.
    const fits = serving.length === 0 ? tokens - 1 : Math.min(tokens, maxTokensFor(serving, job, budgetNanos))
    if (fits === tokens) break
    tokens = fits
  }
  return tokens
}

/** An answer shorter than this is not worth the cost of its prompt. */
const FEWEST_OUTPUT_TOKENS = 16

function fewestTokens(job: ChatJob): number {
  return job.outputFloorTokens ?? FEWEST_OUTPUT_TOKENS
}

function highestCost(offers: readonly Offer[], job: ChatJob, maxTokens: number): Nanos {
  let most = 0n
  for (const offer of offers) {
    const cost = heldNanos(offer, job, outputCap(offer, job, maxTokens) * job.choices)
    if (cost > most) most = cost
  }
  return most
}
