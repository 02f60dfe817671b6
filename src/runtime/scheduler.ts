import { type Clock, systemClock } from './clock.ts'

/** Time as the money code sees it, waiting included: whoever provides it decides what happens when, which is what a simulation needs. */
export interface Scheduler extends Clock {
  /** Runs `work` once after `ms`. The returned function cancels that; afterwards it does nothing. */
  after(ms: number, work: () => void): () => void
  /** Runs `work` in the next turn of the event loop: after the sockets that are readable now have been read. */
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
