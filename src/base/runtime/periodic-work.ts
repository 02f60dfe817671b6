import type { Log } from './log.ts'
import type { Scheduler } from './scheduler.ts'

/** Work that a process repeats in the background until it stops. */
export interface PeriodicWork {
  /** Does the work for the first time after the interval. */
  start(): void
  /** Waits for work that is running. Never rejects. */
  stop(): Promise<void>
}

/**
 * Repeats `work`, each time an interval after it has ended, so it never runs twice at once. After a failure it goes on:
 * the first failure in a row is logged as `failure`, because an outage of PostgreSQL would otherwise fill the log.
 */
export function createPeriodicWork(deps: {
  readonly work: () => Promise<unknown>
  readonly everyMs: number
  readonly failure: string
  readonly scheduler: Pick<Scheduler, 'after'>
  readonly log: Pick<Log, 'warn'>
}): PeriodicWork {
  const { work, everyMs, failure, scheduler, log } = deps
  let running: Promise<void> = Promise.resolve()
  let cancel = () => {}
  let isStopped = false
  let isFailing = false

  function schedule(): void {
    cancel = scheduler.after(everyMs, () => {
      running = runOnce()
    })
  }

  async function runOnce(): Promise<void> {
    try {
      await work()
      isFailing = false
    } catch (error) {
      if (!isFailing) log.warn({ err: error }, failure)
      isFailing = true
    }
    if (!isStopped) schedule()
  }

  return {
    start: schedule,
    async stop() {
      isStopped = true
      cancel()
      await running
    },
  }
}
