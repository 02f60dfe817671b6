/**
 * The two clocks. Durations and deadlines use the monotonic clock, so a stepped wall clock shifts report
 * buckets but never money.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  epochMs(): number
  /** Milliseconds on a clock that never steps, with fractions. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  epochMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}

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

let waiting: (() => void)[] = []

/**
 * Calls back once every socket that is readable in this turn of the event loop has been read, in the order of
 * registration.
 *
 * Requests that wait for this run in lockstep: all take the first step before any takes the second, so the
 * code of each step stays in the processor's caches. Running each request as far as possible right after its
 * read cost a quarter more CPU at 128 connections.
 *
 * `Scheduler.soon` schedules independent work. Here a single callback of the event loop runs all waiting
 * requests, because between two callbacks each request would run as far as it can.
 *
 * @param callBack must not throw: later callbacks would be lost
 */
export function endOfTurn(callBack: () => void): void {
  if (waiting.push(callBack) === 1) setImmediate(end)
}

function end(): void {
  const all = waiting
  waiting = []
  for (const callBack of all) callBack()
}

/**
 * Calls back once this process has read everything that its sockets had received when this function was called.
 * That takes up to two turns: the poll of the current turn may have begun before the last bytes arrived.
 */
export function afterNextPoll(callBack: () => void): void {
  endOfTurn(() => endOfTurn(callBack))
}
