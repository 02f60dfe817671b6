import type { ChatJob } from '../domain/chat-job.ts'
import type { TokenPrice } from '../domain/money.ts'

/** What a request will probably use; the same for every offer, so that only prices are compared. */
export interface ExpectedUse {
  readonly inputTokens: number
  readonly outputTokens: number
}

/**
 * The prompt at 4 bytes a token (its bound counts bytes, which would let input prices decide alone) and a typical answer.
 *
 * @param maxTokens per choice, as the ticket allows
 */
export function expectedUse(job: ChatJob, maxTokens: number): ExpectedUse {
  const textBytes = job.inputTokensBound - job.mediaTokensBound
  return {
    inputTokens: Math.ceil(textBytes / 4) + job.mediaTokensBound,
    outputTokens: Math.min(maxTokens, TYPICAL_OUTPUT_TOKENS) * job.choices,
  }
}

/** Picodollars, unrounded: two offers compare equal only when their prices do. */
export function expectedCostPicos(price: TokenPrice, use: ExpectedUse): bigint {
  return price.inputPicoPerToken * BigInt(use.inputTokens) + price.outputPicoPerToken * BigInt(use.outputTokens)
}

/** Median answers in public chat logs are between 200 and 300 tokens; to be replaced by each model's own median. */
const TYPICAL_OUTPUT_TOKENS = 256
