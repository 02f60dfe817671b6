import type { ChatJob } from './chat-job.ts'
import { affordableOutputTokens, costNanos, type Nanos } from './money.ts'
import type { Offer } from './offer.ts'
import { type PriceStep, stepOf } from './offer-price.ts'

/** The fields of an offer on which a hold depends. */
export type HeldOffer = Pick<Offer, 'price' | 'upstreamModel' | 'speaks'>

/**
 * Returns the most that a job can cost at this offer with so many output tokens in all, whatever parts the upstream
 * reports. Long writes count only where they have a price: elsewhere no server is asked for them.
 */
export function heldNanos(offer: HeldOffer, job: ChatJob, outputTokens: number): Nanos {
  const { price } = offer
  const inputTokens = heldInputTokens(offer, job)
  if (price.terms === undefined) return costNanos(price, inputTokens, outputTokens)
  const step = stepOf(price.terms, inputTokens)
  return costNanos(step.held, inputTokens, outputTokens, heldPartPicos(step, job))
}

/** Returns the most output tokens in all that `budgetNanos` pays for at this offer; negative when the prompt costs more. */
export function affordableTokensAt(offer: HeldOffer, job: ChatJob, budgetNanos: Nanos): number {
  const { price } = offer
  const inputTokens = heldInputTokens(offer, job)
  if (price.terms === undefined) return affordableOutputTokens(price, inputTokens, budgetNanos)
  const step = stepOf(price.terms, inputTokens)
  return affordableOutputTokens(step.held, inputTokens, budgetNanos, heldPartPicos(step, job))
}

/** Returns the most input tokens that are billed at this offer, whatever its server reports. */
export function billableInputTokens(offer: HeldOffer, job: ChatJob): number {
  return job.inputTokensBound + addedTokens(offer, job)
}

/** Returns the tokens of the prompt that a hold must cover: fewer than its bytes once its text has been measured. */
function heldInputTokens(offer: HeldOffer, job: ChatJob): number {
  const { inputTokensBound, promptTextBytes, promptLength } = job
  const bound =
    promptLength === undefined
      ? inputTokensBound
      : Math.min(inputTokensBound, inputTokensBound - promptTextBytes + promptLength.tokensBound)
  return bound + addedTokens(offer, job)
}

function heldPartPicos({ heldMediaPicos, heldPerRequestPicos }: PriceStep, job: ChatJob): bigint {
  return heldMediaPicos * BigInt(job.mediaTokensBound) + heldPerRequestPicos
}

/** Anthropic's price list of November 2026: up to 804, by the model and the tool choice. */
const TOOL_PROMPT_TOKENS = 1_024
/** Anthropic does not publish the length of the prompt that asks for a JSON schema. */
const SCHEMA_PROMPT_TOKENS = 1_024

/** Returns an upper bound of the tokens that the server adds to the prompt, such as its own instructions to use tools. */
function addedTokens(offer: HeldOffer, { features }: ChatJob): number {
  if (features.size === 0 || !hasOwnPrompts(offer)) return 0
  return (features.has('tools') ? TOOL_PROMPT_TOKENS : 0) + (features.has('json_schema') ? SCHEMA_PROMPT_TOKENS : 0)
}

/** Whether the offer is a model of Anthropic, at any cloud and in any dialect. */
function hasOwnPrompts({ upstreamModel, speaks }: HeldOffer): boolean {
  return speaks?.includes('messages') === true || /claude/i.test(upstreamModel)
}
