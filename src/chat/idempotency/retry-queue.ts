import type { Scheduler } from '../../runtime/scheduler.ts'

/** Carries statements out that have to happen some time, however long the database is away. */
export interface RetryQueue {
  /** One after the other, each again until it no longer rejects. */
  insist(work: () => Promise<void>): void
  /** The same, at the earliest after `ms`. */
  retryLater(ms: number, work: () => Promise<void>): void
  /** What is left is given up. */
  stop(): void
}

const AGAIN_MS = 1_000
/** Beyond this, the newest are not taken: an outage must not fill the memory. */
const QUEUED_MAX = 10_000

export function createRetryQueue(
  scheduler: Pick<Scheduler, 'after'>,
  isWorthTryingAgain: (error: unknown) => boolean,
): RetryQueue {
  const queue: (() => Promise<void>)[] = []
  const cancels = new Set<() => void>()
  let isWorking = false
  let isStopped = false

  const insisting: RetryQueue = {
    insist(work) {
      if (isStopped || queue.length >= QUEUED_MAX) return
      queue.push(work)
      if (!isWorking) void workOff()
    },
    retryLater: (ms, work) => {
      if (!isStopped && cancels.size < QUEUED_MAX) after(ms, () => insisting.insist(work))
    },
    stop() {
      isStopped = true
      queue.length = 0
      for (const cancel of cancels) cancel()
      cancels.clear()
    },
  }
  return insisting

  /** One at a time: after an outage there is other work for the database. */
  async function workOff(): Promise<void> {
    isWorking = true
    for (let work = queue[0]; work !== undefined; work = queue[0]) {
      try {
        await work()
      } catch (error) {
        // What the database refuses it would refuse for ever.
        if (isWorthTryingAgain(error)) break
      }
      queue.shift()
    }
    isWorking = false
    if (queue.length === 0 || isStopped) return
    isWorking = true
    after(AGAIN_MS, () => void workOff())
  }

  function after(ms: number, work: () => void): void {
    const cancel = scheduler.after(ms, () => {
      cancels.delete(cancel)
      work()
    })
    cancels.add(cancel)
  }
}
