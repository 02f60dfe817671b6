import type { TokenUsage } from '../domain/completion.ts'
import type { Receipt } from '../domain/handoff.ts'
import { type Nanos, usd } from '../domain/money.ts'

/**
 * The usage that the client sees: the tokens that are billed, and the charge. The upstream's details (cached, reasoning) are kept, each at most
 * as large as the sum that it is part of, because clients subtract them.
 */
export function billedUsage(reported: TokenUsage | undefined, receipt: Receipt, costNanos: Nanos): TokenUsage {
  const { billedInputTokens, billedOutputTokens } = receipt
  const usage: TokenUsage = {
    ...reported,
    prompt_tokens: billedInputTokens,
    completion_tokens: billedOutputTokens,
    total_tokens: billedInputTokens + billedOutputTokens,
    cost_usd: usd(costNanos),
  }
  const { prompt_tokens_details: inputDetails, completion_tokens_details: outputDetails } = usage
  if (inputDetails) usage.prompt_tokens_details = atMost(inputDetails, billedInputTokens)
  if (outputDetails) usage.completion_tokens_details = atMost(outputDetails, billedOutputTokens)
  return usage
}

function atMost(counts: object, max: number): Record<string, number> {
  const bounded: Record<string, number> = {}
  for (const [name, count] of Object.entries(counts)) bounded[name] = Math.min(count, max)
  return bounded
}
