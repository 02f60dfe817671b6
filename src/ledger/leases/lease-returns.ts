import { failpoint } from '../../runtime/failpoint.ts'
import type { Log } from '../../runtime/log.ts'
import { createPeriodicCheck } from '../../runtime/periodic-check.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import { createBatchQueue } from '../batch-queue.ts'
import type { LeaseReturn, LedgerStore } from '../ledger-store.ts'
import type { LeaseBook } from './lease-book.ts'

/** Bulk leases on their way back, whole or in part. */
export interface LeaseReturns {
  push(lease: LeaseReturn): void
  /** Hands back what nothing needs any more; all that can go at the end. */
  collect(all?: boolean): void
  /** From now on it is collected every second, while there are leases. */
  watch(): void
  /** Resolves when what was pushed or collected so far is back. */
  flush(): Promise<void>
  stop(): void
}

export interface LeaseReturnsDeps {
  readonly store: Pick<LedgerStore, 'handBack'>
  readonly book: LeaseBook
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn' | 'error'> | undefined
}

/** How often leases that are idle, out of date or done are looked for. */
const COLLECT_MS = 1_000

export function createLeaseReturns({ store, book, scheduler, log }: LeaseReturnsDeps): LeaseReturns {
  const lane = createBatchQueue<LeaseReturn>({
    scheduler,
    lingerMs: 0,
    async send(batch) {
      failpoint('hand-back-before-send')
      await store.handBack(batch)
      failpoint('hand-back-committed')
      for (const lease of batch) book.returned(lease)
    },
    isWanted: () => true,
    onBroken(batch, error) {
      log?.warn({ err: error, leases: batch.length }, 'leases could not be handed back, trying again')
    },
    onRefused(lease, error) {
      log?.error({ err: error, lease: lease.leaseId }, 'PostgreSQL refuses a lease that is handed back')
      book.forget(lease.leaseId)
    },
  })
  const watch = createPeriodicCheck(scheduler, COLLECT_MS, () => {
    collect()
    return book.size > 0
  })

  function collect(all = false): void {
    for (const lease of book.collect(all)) lane.push(lease)
  }

  return {
    push: lane.push,
    collect,
    watch: watch.start,
    flush: lane.flush,
    stop() {
      lane.stop()
      watch.stop()
    },
  }
}
