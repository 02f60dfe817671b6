import type { ChatJob } from './chat-job.ts'

/**
 * Returns the likely tokens of a prompt, at 4 bytes a token. For comparing offers: the bound of the prompt counts bytes,
 * so it would let input prices decide alone.
 */
export function expectedInputTokens({ inputTokensBound, mediaTokensBound }: ChatJob): number {
  return Math.ceil((inputTokensBound - mediaTokensBound) / 4) + mediaTokensBound
}
