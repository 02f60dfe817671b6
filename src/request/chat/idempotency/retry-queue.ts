import type { Scheduler } from '../../../base/runtime/scheduler.ts'

const RETRY_MS = 1_000
/** Work added to a full queue is dropped, so that an outage does not fill the memory. */
const QUEUED_MAX = 10_000

/**
 * Runs database writes one at a time and retries each until it succeeds, however long the database is
 * unavailable.
 */
export class RetryQueue {
  readonly #scheduler: Pick<Scheduler, 'after'>
  readonly #isRetryable: (error: unknown) => boolean
  readonly #queue: (() => Promise<void>)[] = []
  readonly #cancels = new Set<() => void>()
  #isWorking = false
  #isStopped = false

  constructor(scheduler: Pick<Scheduler, 'after'>, isRetryable: (error: unknown) => boolean) {
    this.#scheduler = scheduler
    this.#isRetryable = isRetryable
  }

  add(work: () => Promise<void>): void {
    if (this.#isStopped || this.#queue.length >= QUEUED_MAX) return
    this.#queue.push(work)
    if (!this.#isWorking) void this.#run()
  }

  /** Adds the work after `ms`. */
  addLater(ms: number, work: () => Promise<void>): void {
    if (!this.#isStopped && this.#cancels.size < QUEUED_MAX) this.#after(ms, () => this.add(work))
  }

  /** Drops all remaining work. */
  stop(): void {
    this.#isStopped = true
    this.#queue.length = 0
    for (const cancel of this.#cancels) cancel()
    this.#cancels.clear()
  }

  async #run(): Promise<void> {
    this.#isWorking = true
    for (let work = this.#queue[0]; work !== undefined; work = this.#queue[0]) {
      try {
        await work()
      } catch (error) {
        // Work that the database refuses is dropped: a retry would be refused too.
        if (this.#isRetryable(error)) break
      }
      this.#queue.shift()
    }
    this.#isWorking = false
    if (this.#queue.length === 0 || this.#isStopped) return
    this.#isWorking = true
    this.#after(RETRY_MS, () => void this.#run())
  }

  #after(ms: number, work: () => void): void {
    const cancel = this.#scheduler.after(ms, () => {
      this.#cancels.delete(cancel)
      work()
    })
    this.#cancels.add(cancel)
  }
}
