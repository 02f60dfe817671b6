import type { Clock } from '../../base/runtime/scheduler.ts'

export interface Speed {
  /** Tokens per second for each choice; `Infinity` sends everything immediately. */
  readonly tokensPerSecond: number
  /** Milliseconds before the first token. */
  readonly firstTokenMs: number
}

/**
 * Calls `step(due)` with the number of tokens that have become due, until it returns false. Uses one timer;
 * the step after a late timer catches up, so the speed holds under load. If `step` returns a promise, for
 * example for a full socket, the next step waits for it. Errors go to `onError`.
 * @returns a function that stops immediately and does nothing after the end
 */
export function pace(
  clock: Clock,
  speed: Speed,
  step: (due: number) => boolean | Promise<boolean>,
  onError: (error: unknown) => void,
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
    // A timer may fire slightly early; send at least one token anyway.
    const sending = Math.max(1, due)
    sent += sending
    try {
      const more = await step(sending)
      if (!more || stopped) return
      const nextAtMs = firstAtMs + (sent / speed.tokensPerSecond) * 1_000
      timer = setTimeout(tick, Math.max(0, nextAtMs - clock.monotonicMs()))
    } catch (error) {
      onError(error)
    }
  }

  return () => {
    stopped = true
    clearTimeout(timer)
  }
}

/** Returns the number of tokens due after `elapsedMs`. The first token is due immediately. */
function dueAfter(elapsedMs: number, tokensPerSecond: number): number {
  return tokensPerSecond === Number.POSITIVE_INFINITY
    ? tokensPerSecond
    : 1 + Math.floor((elapsedMs * tokensPerSecond) / 1_000)
}
