import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { TextLength } from '../../base/domain/text-length.ts'
import { estimateTokens } from './estimate-tokens.ts'

const TOKENS_PER_MESSAGE = 3
/** The tokens that begin and end an input without messages, such as `[CLS]` and `[SEP]`. */
const TOKENS_PER_INPUT = 2

/**
 * Counts the tokens of the prompt: its text, a few for each message, and media at their flat bound. Never above
 * `inputTokensBound`. Long text that has not been measured is estimated.
 */
export function countPromptTokens(
  job: Pick<ChatJob, 'task' | 'promptText' | 'messageCount' | 'mediaTokensBound' | 'inputTokensBound'>,
  length: TextLength | undefined,
): number {
  const textTokens = length?.tokens ?? estimateTokens(job.promptText())
  const templateTokens =
    job.task === 'chat' ? (job.messageCount + 1) * TOKENS_PER_MESSAGE : job.messageCount * TOKENS_PER_INPUT
  const tokens = textTokens + templateTokens + job.mediaTokensBound
  return Math.min(tokens, job.inputTokensBound)
}
