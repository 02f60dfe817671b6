import type { Scheduler } from '../../../base/runtime/scheduler.ts'

const RETRY_MS = 1_000
/** Work added to a full queue is dropped, so that an outage does not fill the memory. */
const QUEUED_MAX = 10_000

/**
 * Runs database writes one at a time, and retries each however long the database is unavailable. It drops a write that
 * fails for another reason, since a retry would fail too, and one that finds the queue full.
 */
export class RetryQueue {
  readonly #scheduler: Pick<Scheduler, 'after'>
  readonly #isRetryable: (error: unknown) => boolean
  readonly #queue: (() => Promise<void>)[] = []
  readonly #cancels = new Set<() => void>()
  readonly #onDropped: (error: unknown) => void
  #isDropping = false
  #isWorking = false
  #isStopped = false

  /** @param onDropped called for the first of several writes in a row that are dropped */
  constructor(
    scheduler: Pick<Scheduler, 'after'>,
    isRetryable: (error: unknown) => boolean,
    onDropped: (error: unknown) => void,
  ) {
    this.#scheduler = scheduler
    this.#isRetryable = isRetryable
    this.#onDropped = onDropped
  }

  add(work: () => Promise<void>): void {
    if (this.#isStopped) return
    if (this.#queue.length >= QUEUED_MAX) {
      this.#noteDropped(fullQueue())
      return
    }
    this.#queue.push(work)
    if (!this.#isWorking) void this.#run()
  }

  /** Adds the work after `ms`. */
  addLater(ms: number, work: () => Promise<void>): void {
    if (this.#isStopped) return
    if (this.#cancels.size >= QUEUED_MAX) this.#noteDropped(fullQueue())
    else this.#after(ms, () => this.add(work))
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
        this.#isDropping = false
      } catch (error) {
        if (this.#isStopped || this.#isRetryable(error)) break
        this.#noteDropped(error)
      }
      this.#queue.shift()
    }
    this.#isWorking = false
    if (this.#queue.length === 0 || this.#isStopped) return
    this.#isWorking = true
    this.#after(RETRY_MS, () => void this.#run())
  }

  #noteDropped(error: unknown): void {
    if (!this.#isDropping) this.#onDropped(error)
    this.#isDropping = true
  }

  #after(ms: number, work: () => void): void {
    const cancel = this.#scheduler.after(ms, () => {
      this.#cancels.delete(cancel)
      work()
    })
    this.#cancels.add(cancel)
  }
}

const fullQueue = () => new Error(`${QUEUED_MAX} writes wait for the database`)
