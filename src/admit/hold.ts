import type { ChatJob } from '../domain/chat-job.ts'
import { affordableOutputTokens, costNanos, type Nanos } from '../domain/money.ts'
import type { Offer } from '../domain/offer.ts'
import { outputCap } from '../domain/output-cap.ts'

export interface HoldRequest {
  /** Pays for `maxTokens` at the dearest candidate. */
  readonly wantNanos: Nanos
  /** The least that makes sense: the prompt and a few tokens. Equal to `wantNanos` when the caller named a limit that must not be clamped. */
  readonly floorNanos: Nanos
  /** Per choice. */
  readonly maxTokens: number
  /** Absent when `maxTokens` is what was asked for, or the default. */
  readonly clampedBy?: 'max_cost_usd'
}

/**
 * The money to hold: the worst case over every candidate, fallbacks included, so that no retry can cost more than is held.
 * Dispatch asks each offer for at most `outputCap(offer, job, maxTokens)`, which is never above `maxTokens`.
 *
 * @param offers at least one; each can make a token for the job's `maxCostNanos`, which is never exceeded
 * @param defaultMaxTokens output tokens per choice where the job does not say; fewer where no offer can make as many
 */
export function holdFor(offers: readonly Offer[], job: ChatJob, defaultMaxTokens: number): HoldRequest {
  const askedTokens = job.maxTokens ?? Math.max(...offers.map(offer => outputCap(offer, job, defaultMaxTokens)))
  const paidTokens = job.maxCostNanos === null ? askedTokens : maxTokensFor(offers, job, job.maxCostNanos)
  const maxTokens = Math.min(askedTokens, paidTokens)
  const wantNanos = dearest(offers, job, maxTokens)
  const mayHoldLess = job.maxTokens === null || job.onInsufficient === 'clamp'
  const floorNanos = mayHoldLess ? dearest(offers, job, Math.min(FEWEST_OUTPUT_TOKENS, maxTokens)) : wantNanos
  return { wantNanos, floorNanos, maxTokens, ...(maxTokens < askedTokens && { clampedBy: 'max_cost_usd' }) }
}

/** The most output tokens per choice that `heldNanos` pays for at every candidate; 0 when it does not pay for one. Rounds down. */
export function maxTokensFor(offers: readonly Offer[], job: ChatJob, heldNanos: Nanos): number {
  const affordable = offers.map(offer => affordableOutputTokens(offer.price, job.inputTokensBound, heldNanos))
  return Math.max(0, Math.floor(Math.min(...affordable) / job.choices))
}

/**
 * The most output tokens per choice with which the job would be admitted for `budgetNanos`, at most as many as its eligible offers make of that; 0 when it
 * would not with one. Who asks for fewer tokens may also be served by offers that make no more, and the hold covers those too, however dear.
 *
 * @param offers those that may serve the job as it is
 * @param offersFor those that may serve it with so many tokens
 */
export function affordableTokens(
  offers: readonly Offer[],
  offersFor: (maxTokens: number) => readonly Offer[],
  job: ChatJob,
  budgetNanos: Nanos,
): number {
  // A job without a limit is refused for less than the fewest.
  let tokens = Math.min(maxTokensFor(offers, job, budgetNanos), job.maxTokens ?? FEWEST_OUTPUT_TOKENS)
  while (tokens > 0) {
    const able = offersFor(tokens)
    // A job without a limit is taken where not even so few fit. With one, each step brings in an offer that was not among them.
    const fits = able.length === 0 ? tokens - 1 : Math.min(tokens, maxTokensFor(able, job, budgetNanos))
    if (fits === tokens) break
    tokens = fits
  }
  return tokens
}

/** A shorter answer than this is not worth its prompt. */
const FEWEST_OUTPUT_TOKENS = 16

function dearest(offers: readonly Offer[], job: ChatJob, maxTokens: number): Nanos {
  let most = 0n
  for (const { price } of offers) {
    const cost = costNanos(price, job.inputTokensBound, maxTokens * job.choices)
    if (cost > most) most = cost
  }
  return most
}
