import { elementAt } from '../../base/runtime/collections.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Scheduler } from '../../base/runtime/scheduler.ts'
import { isLockTimeout, isTransient } from './is-transient.ts'
import { LockedEntries } from './locked-entries.ts'

export interface BatchQueueOptions<Entry> {
  readonly scheduler: Scheduler
  /**
   * How long a batch with free room waits for more entries, ms. `last` is what was sent before it: the number of
   * entries, and how long they took. Default 0: no wait.
   */
  lingerMs?(last: { readonly entries: number; readonly busyMs: number }): number
  /**
   * For entries of one group that cost less when they are sent together: a queue sends such entries in one transaction.
   */
  groupOf?(entry: Entry): string
  /**
   * Sends a batch as one transaction and answers its entries. `attempt` counts from 0. Throws when the
   * transaction may not have committed. With `skipsLocked` the transaction does not wait for rows that other sessions
   * have locked. Returns the entries for which it did nothing because of such a row. They are sent again.
   */
  send(batch: readonly Entry[], attempt: number, skipsLocked: boolean): Promise<readonly Entry[]>
  /** Called before each attempt. An entry for which it returns false is dropped. */
  isWanted(entry: Entry): boolean
  /** The attempt failed with a transient error. It is unknown whether the batch was committed. */
  onTransientError(batch: readonly Entry[], error: unknown): void
  /** These entries have waited for some time for rows that other sessions have locked. */
  onLocked?(entries: readonly Entry[]): void
  /** PostgreSQL rejects this entry for good. The other entries of its batch are sent without it. */
  onRejected(entry: Entry, error: unknown): void
}

const BATCH_MAX = 256
/** How many entries of a grouping queue wait at most before they are sent, in several transactions. */
const GROUPED_MAX = 8_192
/**
 * Entries per transaction of a grouping queue. PostgreSQL settles 1,024 in some 30 ms, and holds their locks that long.
 */
const GROUPED_BATCH_MAX = 1_024
const BACKOFF_MIN_MS = 20
const BACKOFF_MAX_MS = 1_000

/** The linger of a queue that uses at most a fifth of its connection, within limits in ms. */
export function lingerFor(busyMs: number, minMs: number, maxMs: number): number {
  return Math.min(Math.max(busyMs * 4, minMs), maxMs)
}

/**
 * Sends entries in batches, one batch at a time. Entries that arrive while a batch is in flight form the next
 * batch. An idle queue therefore adds no delay, and a busy one shares its round trips and fsyncs.
 */
export class BatchQueue<Entry> implements Iterable<Entry> {
  readonly #options: BatchQueueOptions<Entry>
  /** How many queued entries end the linger, and are sent before the next one. */
  readonly #fullAt: number
  #last = { entries: 0, busyMs: 0 }
  #queued: Entry[] = []
  #inFlight: readonly Entry[] = []
  readonly #locked: LockedEntries<Entry>
  #isRunning = false
  #isStopped = false
  #pushed = 0
  #finished = 0
  #flushes: { readonly upTo: number; readonly resolve: () => void }[] = []
  /** Ends the current linger or back-off early. */
  #wake: (() => void) | undefined

  constructor(options: BatchQueueOptions<Entry>) {
    this.#options = options
    this.#fullAt = options.groupOf === undefined ? BATCH_MAX : GROUPED_MAX
    this.#locked = new LockedEntries(options.scheduler, entry => this.push(entry))
  }

  /** Entries that are queued, in flight, or wait for a locked row. */
  get size(): number {
    return this.#queued.length + this.#inFlight.length + this.#locked.size
  }

  push(entry: Entry): void {
    if (this.#isStopped) return
    this.#queued.push(entry)
    this.#pushed++
    if (this.#queued.length >= this.#fullAt && this.#inFlight.length === 0) this.#wake?.()
    if (this.#isRunning) return
    this.#isRunning = true
    // Wait until all readable sockets have been read: their requests belong in this batch too.
    this.#options.scheduler.soon(() => void this.#run())
  }

  isInFlight(entry: Entry): boolean {
    return this.#inFlight.includes(entry)
  }

  /**
   * Sends without lingering. Resolves when every entry that is in the queue now was sent or dropped, or waits for a
   * locked row.
   */
  flush(): Promise<void> {
    if (!this.#isRunning) return Promise.resolve()
    if (this.#inFlight.length === 0) this.#wake?.()
    return new Promise(resolve => {
      this.#flushes.push({ upTo: this.#pushed, resolve })
    })
  }

  /** Does the same, and also waits for locked rows, until `isDone` returns true. */
  async drain(isDone = () => false): Promise<void> {
    await this.flush()
    while (this.#locked.size > 0 && !isDone() && !this.#isStopped) {
      await this.#locked.retried()
      await this.flush()
    }
  }

  /** Drops the queued entries and stops sending. */
  stop(): void {
    this.#isStopped = true
    this.#queued = []
    this.#locked.retryNow()
    this.#wake?.()
  }

  *[Symbol.iterator](): Generator<Entry, void> {
    yield* this.#inFlight
    yield* this.#queued
    yield* this.#locked
  }

  async #run(): Promise<void> {
    const { scheduler } = this.#options
    while (this.#queued.length > 0) {
      const mayLinger = this.#queued.length < this.#fullAt && this.#flushes.length === 0
      const lingerMs = mayLinger ? (this.#options.lingerMs?.(this.#last) ?? 0) : 0
      if (lingerMs > 0) await this.#sleep(lingerMs)
      this.#inFlight = this.#takeQueued()
      const sentAtMs = scheduler.monotonicMs()
      for (const batch of this.#batchesOf(this.#inFlight)) await this.#deliver(batch)
      this.#last = { entries: this.#inFlight.length, busyMs: scheduler.monotonicMs() - sentAtMs }
      this.#finished += this.#inFlight.length
      this.#inFlight = []
      this.#resolveFlushes()
    }
    this.#isRunning = false
    // Includes the entries that `stop` dropped.
    this.#finished = this.#pushed
    this.#resolveFlushes()
  }

  #takeQueued(): readonly Entry[] {
    const queued = this.#queued
    if (queued.length <= this.#fullAt) {
      this.#queued = []
      return queued
    }
    this.#queued = queued.slice(this.#fullAt)
    return queued.slice(0, this.#fullAt)
  }

  #batchesOf(entries: readonly Entry[]): readonly (readonly Entry[])[] {
    const { groupOf } = this.#options
    if (groupOf === undefined || entries.length <= BATCH_MAX) return [entries]
    return batchesOfGroups(Map.groupBy(entries, groupOf).values())
  }

  #resolveFlushes(): void {
    for (const { upTo, resolve } of this.#flushes) if (upTo <= this.#finished) resolve()
    this.#flushes = this.#flushes.filter(({ upTo }) => upTo > this.#finished)
  }

  /** Sends the entries until they are committed. Halves the batch to isolate an entry that PostgreSQL rejects. */
  async #deliver(entries: readonly Entry[]): Promise<void> {
    const options = this.#options
    for (let attempt = 0; !this.#isStopped; attempt++) {
      const batch = entries.filter(options.isWanted)
      if (batch.length === 0) return
      const skipsLocked = this.#locked.mustSkip
      try {
        const locked = await options.send(batch, attempt, skipsLocked)
        if (locked.length > 0 && this.#locked.add(locked)) options.onLocked?.(locked)
        return
      } catch (error) {
        if (isLockTimeout(error) && !skipsLocked) {
          this.#locked.skip()
          continue
        }
        if (!isTransient(error)) {
          if (batch.length === 1) options.onRejected(elementAt(batch, 0), error)
          else {
            const half = batch.length >> 1
            await this.#deliver(batch.slice(0, half))
            await this.#deliver(batch.slice(half))
          }
          return
        }
        options.onTransientError(batch, error)
        await this.#sleep(Math.min(BACKOFF_MIN_MS * 2 ** attempt, BACKOFF_MAX_MS))
      }
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.#options.scheduler.after(ms, () => this.#wake?.())
      this.#wake = () => {
        cancel()
        this.#wake = undefined
        resolve()
      }
    })
  }
}

/** Divides groups into batches. Only a group that is larger than a batch is divided itself. */
function batchesOfGroups<Entry>(groups: Iterable<readonly Entry[]>): Entry[][] {
  const batches: Entry[][] = []
  let batch: Entry[] = []
  for (const group of groups) {
    if (batch.length > 0 && batch.length + group.length > GROUPED_BATCH_MAX) {
      batches.push(batch)
      batch = []
    }
    for (const entry of group) {
      if (batch.length === GROUPED_BATCH_MAX) {
        batches.push(batch)
        batch = []
      }
      batch.push(entry)
    }
  }
  batches.push(batch)
  return batches
}

/** Logs that entries of these customers wait because another session has locked a row of the customer. */
export function logLocked(
  log: Pick<Log, 'warn'> | undefined,
  entries: readonly { readonly customerId: string }[],
  what: 'admissions' | 'settlements',
): void {
  const customers = [...new Set(entries.map(({ customerId }) => customerId))]
  log?.warn(
    { customers: customers.slice(0, 10), [what]: entries.length },
    `another session has locked the balances of customers; their ${what} wait, and those of others go on`,
  )
}
