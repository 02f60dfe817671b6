import type { Clock } from '../runtime/clock.ts'

export interface Speed {
  /** Tokens a second for each choice; `Infinity` sends everything at once. */
  readonly tokensPerSecond: number
  /** Milliseconds before the first token. */
  readonly firstTokenMs: number
}

/**
 * Calls `step(due)` with the number of tokens that have become due, until it returns false, with one timer. A timer that
 * comes late makes up for it in its next step, so the speed holds under load.
 * `step` may return a promise (a full socket): nothing is due before it has settled. A step that fails goes to `failed`.
 * @returns stops it at once; harmless after the end.
 */
export function pace(
  clock: Clock,
  speed: Speed,
  step: (due: number) => boolean | Promise<boolean>,
  failed: (error: unknown) => void,
): () => void {
  let stopped = false
  let sent = 0
  let firstAtMs = 0
  let timer = setTimeout(() => {
    firstAtMs = clock.monotonicMs()
    void tick()
  }, speed.firstTokenMs)

  async function tick(): Promise<void> {
    const due = dueAfter(clock.monotonicMs() - firstAtMs, speed.tokensPerSecond) - sent
    // A timer may fire a fraction early; each tick sends at least one token all the same.
    const sending = Math.max(1, due)
    sent += sending
    try {
      const more = await step(sending)
      if (!more || stopped) return
      const nextAtMs = firstAtMs + (sent / speed.tokensPerSecond) * 1_000
      timer = setTimeout(tick, Math.max(0, nextAtMs - clock.monotonicMs()))
    } catch (error) {
      failed(error)
    }
  }

  return () => {
    stopped = true
    clearTimeout(timer)
  }
}

/** Tokens due after this time; the first one at once. */
function dueAfter(elapsedMs: number, tokensPerSecond: number): number {
  return tokensPerSecond === Number.POSITIVE_INFINITY
    ? tokensPerSecond
    : 1 + Math.floor((elapsedMs * tokensPerSecond) / 1_000)
}
