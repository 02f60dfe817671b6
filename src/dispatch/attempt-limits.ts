import type { Timeouts } from '../domain/offer.ts'
import type { ExchangeLimits } from '../upstreams/exchange-request.ts'

/**
 * Returns the time limits of one attempt. `remainingMs`: the time that is left for the request. `hasNext`: another
 * offer can be tried after this one. Then the attempt may use half of the remaining time, so that a server that
 * never answers leaves time for the next.
 */
export function attemptLimits(
  timeouts: Timeouts,
  { stream, maxTokens }: { readonly stream: boolean; readonly maxTokens: number },
  remainingMs: number,
  hasNext: boolean,
): ExchangeLimits {
  const { connectMs, firstTokenMs, tokenMs, idleMs } = timeouts
  const totalMs = Math.min(timeouts.totalMs, remainingMs)
  const answerMs = hasNext ? Math.min(totalMs, remainingMs / 2) : totalMs
  // The first content of a stream ends the choice of a server, and the rest may take the whole time.
  if (stream) return { connectMs, firstByteMs: Math.min(firstTokenMs, answerMs), idleMs, totalMs }
  // Without streaming, the first byte comes after the last token.
  const firstByteMs = Math.min(firstTokenMs + maxTokens * tokenMs, answerMs)
  return { connectMs, firstByteMs, idleMs, totalMs: answerMs }
}
