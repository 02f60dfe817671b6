import { failpoint } from '../../../base/runtime/failpoint.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicCheck, type Scheduler } from '../../../base/runtime/scheduler.ts'
import { BatchQueue } from '../batch-queue.ts'
import type { LeaseReturn, LedgerStore } from '../ledger-store.ts'
import type { LeaseBook } from './lease-book.ts'

/** Hands bulk leases back to the database, whole or in part. */
export interface LeaseReturns {
  push(lease: LeaseReturn): void
  /** Hands back leases that are idle or out of date; with `all`, everything that no running request needs. */
  collect(all?: boolean): void
  /** Starts to collect every second, while the book has customers. */
  watch(): void
  /** Resolves when every return that was pushed or collected so far, or every one of this customer, is committed. */
  flush(customerId?: string): Promise<void>
  stop(): void
}

export interface LeaseReturnsDeps {
  readonly store: Pick<LedgerStore, 'handBack'>
  readonly book: LeaseBook
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn' | 'error'> | undefined
}

const COLLECT_MS = 1_000

export function createLeaseReturns({ store, book, scheduler, log }: LeaseReturnsDeps): LeaseReturns {
  const queue = new BatchQueue<LeaseReturn>({
    scheduler,
    async send(batch, _attempt, skipsLocked) {
      failpoint('hand-back-before-send')
      const locked = await store.handBack(batch, skipsLocked)
      failpoint('hand-back-committed')
      for (const lease of batch) if (!locked.has(lease.leaseId)) book.returned(lease)
      return locked.size === 0 ? [] : batch.filter(({ leaseId }) => locked.has(leaseId))
    },
    isWanted: () => true,
    onTransientError(batch, error) {
      log?.warn({ err: error, leases: batch.length }, 'leases could not be handed back; trying again')
    },
    onRejected(lease, error) {
      log?.error({ err: error, lease: lease.leaseId }, 'PostgreSQL rejected the return of a lease')
      book.forget(lease.leaseId)
    },
  })
  const watch = createPeriodicCheck(scheduler, COLLECT_MS, () => {
    collect()
    return book.size > 0
  })

  function collect(all = false): void {
    for (const lease of book.collect(all)) queue.push(lease)
  }

  return {
    push: lease => queue.push(lease),
    collect,
    watch: watch.start,
    flush: customerId => queue.drain(() => customerId !== undefined && !book.hasReturnPending(customerId)),
    stop() {
      queue.stop()
      watch.stop()
    },
  }
}
