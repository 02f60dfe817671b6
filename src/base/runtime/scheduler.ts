import { type Clock, systemClock } from './clock.ts'

/**
 * All access of the money code to time, including waiting. The simulator replaces it to control the order of
 * events.
 */
export interface Scheduler extends Clock {
  /** Runs `work` once after `ms`. Returns a function that cancels it and does nothing once `work` has run. */
  after(ms: number, work: () => void): () => void
  /** Runs `work` in the next turn of the event loop, once the sockets that are readable now have been read. */
  soon(work: () => void): void
}

export const systemScheduler: Scheduler = {
  ...systemClock,
  after(ms, work) {
    const timer = setTimeout(work, ms)
    return () => clearTimeout(timer)
  },
  soon: work => {
    setImmediate(work)
  },
}
