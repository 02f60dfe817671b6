import type { Scheduler } from './scheduler.ts'

/** Looks at something every so often while there is something to see; it owns no timer while there is not. */
export interface PeriodicCheck {
  /** Looks after the next `everyMs`, unless that is due anyhow. */
  start(): void
  /** For good. */
  stop(): void
}

/** @param look says whether to look again */
export function createPeriodicCheck(
  scheduler: Pick<Scheduler, 'after'>,
  everyMs: number,
  look: () => boolean,
): PeriodicCheck {
  let cancel: (() => void) | undefined
  let stopped = false

  function start(): void {
    if (stopped || cancel !== undefined) return
    cancel = scheduler.after(everyMs, () => {
      cancel = undefined
      if (look()) start()
    })
  }

  return {
    start,
    stop() {
      stopped = true
      cancel?.()
    },
  }
}
