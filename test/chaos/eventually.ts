import { setTimeout as delay } from 'node:timers/promises'

/** Polls until the condition is true. Throws with `what` after `timeoutMs`. Resolves with the milliseconds that it took. */
export async function eventually(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  { timeoutMs = 90_000, everyMs = 25 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<number> {
  const startedMs = performance.now()
  for (;;) {
    if (await isTrue()) return performance.now() - startedMs
    if (performance.now() - startedMs > timeoutMs) throw new Error(`timed out after ${timeoutMs / 1000} s: ${what}`)
    await delay(everyMs)
  }
}
