import type { Scheduler } from './scheduler.ts'

/** Runs a check periodically while it is needed, and holds no timer otherwise. */
export interface PeriodicCheck {
  /** Schedules the check after `everyMs`, unless one is already scheduled. */
  start(): void
  /** Stops for good. */
  stop(): void
}

/** @param check returns whether to run again */
export function createPeriodicCheck(
  scheduler: Pick<Scheduler, 'after'>,
  everyMs: number,
  check: () => boolean,
): PeriodicCheck {
  let cancel: (() => void) | undefined
  let stopped = false

  function start(): void {
    if (stopped || cancel !== undefined) return
    cancel = scheduler.after(everyMs, () => {
      cancel = undefined
      if (check()) start()
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
