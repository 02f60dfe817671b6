import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicCheck, type Scheduler } from '../../../base/runtime/scheduler.ts'
import type { LeaseUse, LedgerStore } from '../ledger-store.ts'
import type { BulkLease } from './bulk-lease.ts'
import type { LeaseBook } from './lease-book.ts'
import type { NodeView } from './node-life.ts'

/**
 * Keeps the request counts of several nodes together: reports what requests have used of this node's bulk leases,
 * and reads what those of other nodes have used. No decision about money or limits depends on it.
 */
export interface UseReports {
  /** Starts to report while the book has leases and there are other nodes. */
  watch(): void
  stop(): void
}

export interface UseReportsDeps {
  readonly store: Pick<LedgerStore, 'noteUse' | 'windowsOf'>
  readonly node: NodeView
  readonly book: LeaseBook
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'> | undefined
}

/** A request is seen by the other nodes after two periods at most: one until it is reported, one until it is read. */
const REPORT_MS = 400

export function createUseReports({ store, node, book, scheduler, log }: UseReportsDeps): UseReports {
  let isRunning = false
  const check = createPeriodicCheck(scheduler, REPORT_MS, () => {
    const leases = [...book.leases()]
    if (leases.length === 0 || !node.hasPeers()) return false
    if (!isRunning) {
      isRunning = true
      exchange(leases)
        .catch(error =>
          log?.warn({ err: error }, 'request counts could not be exchanged with other nodes; trying again'),
        )
        .finally(() => {
          isRunning = false
        })
    }
    return true
  })

  async function exchange(leases: readonly BulkLease[]): Promise<void> {
    const changed = new Map<BulkLease, LeaseUse>()
    for (const lease of leases) {
      const use = lease.unreportedUse()
      if (use !== undefined) changed.set(lease, use)
    }
    if (changed.size > 0) {
      const locked = await store.noteUse([...changed.values()])
      for (const [lease, use] of changed) if (!locked.has(lease.leaseId)) lease.noteReported(use)
    }
    const sentAtMs = scheduler.monotonicMs()
    const customerIds = [...new Set(leases.map(lease => lease.customerId))]
    for (const [customerId, windows] of await store.windowsOf(node.nodeId, customerIds))
      book.requestsMade.note(customerId, windows, sentAtMs)
  }

  return { watch: check.start, stop: check.stop }
}
