import type { Scheduler } from '../runtime/scheduler.ts'
import { isTransient } from './is-transient.ts'

/**
 * A queue whose entries travel in batches, one batch under way at a time: what arrives meanwhile is the next batch. So an idle lane adds
 * no delay and a busy one shares its round trips and its fsyncs.
 */
export interface BatchQueue<Entry> extends Iterable<Entry> {
  push(entry: Entry): void
  /** Queued and under way. */
  readonly size: number
  isUnderWay(entry: Entry): boolean
  /** Sends without waiting for company, and resolves when what is in the lane now has been carried out or dropped. */
  flush(): Promise<void>
  /** Gives up what is left: nothing is sent again from now on. */
  stop(): void
}

export interface BatchQueueOptions<Entry> {
  readonly scheduler: Scheduler
  /** How long a batch that is not full waits for company, ms. 0 for entries that somebody waits for. */
  readonly lingerMs: number
  /** Carries out a batch as one transaction and answers its entries. `attempt` counts from 0. Throws when nothing may have happened. */
  send(batch: readonly Entry[], attempt: number): Promise<void>
  /** Asked before each attempt: false drops the entry. */
  isWanted(entry: Entry): boolean
  /** The database could not be reached, or gave up for a reason that passes; whether it committed is unknown. */
  onBroken(batch: readonly Entry[], error: unknown): void
  /** PostgreSQL will never take this entry; the others of its batch are carried out without it. */
  onRefused(entry: Entry, error: unknown): void
}

const BATCH_MAX = 256
const BACKOFF_MIN_MS = 20
const BACKOFF_MAX_MS = 1_000

export function createBatchQueue<Entry>(options: BatchQueueOptions<Entry>): BatchQueue<Entry> {
  const { scheduler, lingerMs } = options
  let queue: Entry[] = []
  let underWay: readonly Entry[] = []
  let running = false
  let stopped = false
  let pushed = 0
  let carried = 0
  let flushes: { readonly upTo: number; readonly resolve: () => void }[] = []
  /** Ends the linger or the back-off at hand before its time. */
  let wake: (() => void) | undefined

  return {
    push(entry) {
      if (stopped) return
      queue.push(entry)
      pushed++
      if (queue.length >= BATCH_MAX && underWay.length === 0) wake?.()
      if (running) return
      running = true
      // After the sockets that are readable now have been read: their requests belong in this batch too.
      scheduler.soon(() => void run())
    },
    get size() {
      return queue.length + underWay.length
    },
    isUnderWay: entry => underWay.includes(entry),
    flush() {
      if (!running) return Promise.resolve()
      if (underWay.length === 0) wake?.()
      return new Promise(resolve => {
        flushes.push({ upTo: pushed, resolve })
      })
    },
    stop() {
      stopped = true
      queue = []
      wake?.()
    },
    *[Symbol.iterator]() {
      yield* underWay
      yield* queue
    },
  }

  async function run(): Promise<void> {
    while (queue.length > 0) {
      if (lingerMs > 0 && queue.length < BATCH_MAX && flushes.length === 0) await sleep(lingerMs)
      underWay = queue.length <= BATCH_MAX ? queue : queue.slice(0, BATCH_MAX)
      queue = queue.length <= BATCH_MAX ? [] : queue.slice(BATCH_MAX)
      await carry(underWay)
      carried += underWay.length
      underWay = []
      endFlushes()
    }
    running = false
    // Those of a lane that was stopped.
    carried = pushed
    endFlushes()
  }

  function endFlushes(): void {
    for (const { upTo, resolve } of flushes) if (upTo <= carried) resolve()
    flushes = flushes.filter(({ upTo }) => upTo > carried)
  }

  async function carry(entries: readonly Entry[]): Promise<void> {
    let batch = entries.filter(options.isWanted)
    for (let attempt = 0; batch.length > 0 && !stopped; attempt++) {
      try {
        await options.send(batch, attempt)
        return
      } catch (error) {
        if (!isTransient(error)) {
          if (batch.length === 1) options.onRefused(batch[0]!, error)
          else {
            const half = batch.length >> 1
            await carry(batch.slice(0, half))
            await carry(batch.slice(half))
          }
          return
        }
        options.onBroken(batch, error)
        await sleep(Math.min(BACKOFF_MIN_MS * 2 ** attempt, BACKOFF_MAX_MS))
        batch = batch.filter(options.isWanted)
      }
    }
  }

  function sleep(ms: number): Promise<void> {
    return new Promise(resolve => {
      const cancel = scheduler.after(ms, () => wake?.())
      wake = () => {
        cancel()
        wake = undefined
        resolve()
      }
    })
  }
}
