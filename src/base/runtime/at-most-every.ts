import type { Scheduler } from './scheduler.ts'

/**
 * Returns a function that calls `work` at once, up to `burst` times. Each `intervalMs` allow one more call. Calls beyond that
 * cause one together, as soon as one is allowed.
 */
export function atMostEvery(
  { intervalMs, burst }: { readonly intervalMs: number; readonly burst: number },
  scheduler: Pick<Scheduler, 'after'>,
  work: () => void,
): () => void {
  let allowed = burst
  let isWanted = false
  let isWaiting = false
  const refill = () => {
    if (isWaiting || allowed === burst) return
    isWaiting = true
    scheduler.after(intervalMs, () => {
      isWaiting = false
      allowed++
      if (isWanted) run()
      else refill()
    })
  }
  const run = () => {
    allowed--
    isWanted = false
    refill()
    work()
  }
  return () => {
    if (allowed > 0) run()
    else isWanted = true
  }
}
