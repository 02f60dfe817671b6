import { setTimeout as delay } from 'node:timers/promises'

/** Asks again and again until it is true (or not empty); throws with `what` after `timeoutMs`. Resolves with the milliseconds it took. */
export async function eventually(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  { timeoutMs = 90_000, everyMs = 25 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<number> {
  const startedMs = performance.now()
  for (;;) {
    if (await isTrue()) return performance.now() - startedMs
    if (performance.now() - startedMs > timeoutMs) throw new Error(`not within ${timeoutMs / 1000} s: ${what}`)
    await delay(everyMs)
  }
}
