import type { Timeouts } from '../../base/domain/offer.ts'
import type { ExchangeLimits } from '../../wire/upstreams/exchange-request.ts'

/**
 * Returns the time limits of one attempt. `remainingMs`: the time that is left for the request. `hasNext`: another
 * offer can be tried after this one. Then the attempt may use half of the remaining time, so that a server that
 * never answers leaves time for the next. `firstTokenP95Ms`: what 95% of the streams of this server stay below; null
 * to wait as long as the time-out allows.
 */
export function attemptLimits(
  timeouts: Timeouts,
  { stream, maxTokens }: { readonly stream: boolean; readonly maxTokens: number },
  remainingMs: number,
  hasNext: boolean,
  firstTokenP95Ms: number | null = null,
): ExchangeLimits {
  const { connectMs, tokenMs, idleMs } = timeouts
  const firstTokenMs = Math.min(timeouts.firstTokenMs, usualLimitMs(firstTokenP95Ms))
  const totalMs = Math.min(timeouts.totalMs, remainingMs)
  const answerMs = hasNext ? Math.min(totalMs, remainingMs / 2) : totalMs
  // The first content of a stream ends the choice of a server, and the rest may take the whole time.
  if (stream) return { connectMs, firstByteMs: Math.min(firstTokenMs, answerMs), idleMs, totalMs }
  // Without streaming, the first byte comes after the last token.
  const firstByteMs = Math.min(firstTokenMs + maxTokens * tokenMs, answerMs)
  return { connectMs, firstByteMs, idleMs, totalMs: answerMs }
}

function usualLimitMs(firstTokenP95Ms: number | null): number {
  return firstTokenP95Ms === null ? Infinity : Math.max(USUAL_MS_MIN, USUAL_TIMES * firstTokenP95Ms)
}

const USUAL_TIMES = 3
const USUAL_MS_MIN = 5_000
