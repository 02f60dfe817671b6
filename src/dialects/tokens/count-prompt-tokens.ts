import type { ChatJob } from '../../domain/chat-job.ts'
import { estimateTokens } from './estimate-tokens.ts'

const TOKENS_PER_MESSAGE = 3

/**
 * Counts prompt tokens for an upstream that reports none: text with the tokenizer, media at their flat bound.
 * Long texts are sampled, so the result is capped at `inputTokensBound`, which the hold covers.
 */
export function countPromptTokens(job: ChatJob): number {
  const textTokens = estimateTokens(job.promptText()) + (job.messageCount + 1) * TOKENS_PER_MESSAGE
  return Math.min(textTokens + job.mediaTokensBound, job.inputTokensBound)
}
