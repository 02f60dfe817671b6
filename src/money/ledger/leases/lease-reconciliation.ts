import type { Log } from '../../../base/runtime/log.ts'
import type { LedgerStore, OpenLease } from '../ledger-store.ts'
import type { RecentSettlements } from '../settlement/recent-settlements.ts'
import type { LeaseBook } from './lease-book.ts'
import type { NodeView } from './node-life.ts'
import { ALL_SLOTS } from './unconfirmed-leases.ts'

export interface LeaseReconciliationDeps {
  readonly store: Pick<LedgerStore, 'areSettled' | 'leasesOf' | 'release' | 'handBack'>
  readonly node: Pick<NodeView, 'nodeId'>
  readonly book: Pick<LeaseBook, 'has' | 'leaseIds' | 'forget'>
  readonly recent: Pick<RecentSettlements, 'latest' | 'found'>
  /** Whether a request of this node uses the strict lease, or a statement in flight may create the lease. */
  readonly isInUse: (leaseId: string) => boolean
  readonly monotonicMs: () => number
  /** Settles again what was committed last. Resolves with the number of settlements. */
  readonly settleRecentAgain: () => Promise<number>
  readonly log: Pick<Log, 'warn' | 'error'> | undefined
}

/** Also without a reason, in case a statement was executed long after its connection broke. */
const EVERY_HEARTBEATS = 60

/**
 * Compares the leases that this node knows with those that PostgreSQL has for it, both ways. They differ after a
 * failover to a standby that lacks the last transactions, or after a restore: leases that had ended are open again,
 * and leases that were granted do not exist.
 */
export class LeaseReconciliation {
  readonly #deps: LeaseReconciliationDeps
  #heartbeats = 0
  #isDue = false
  #running: Promise<void> | undefined

  constructor(deps: LeaseReconciliationDeps) {
    this.#deps = deps
  }

  /**
   * Call it after each heartbeat. `isReconnected`: earlier heartbeats did not reach PostgreSQL, or it has lost some.
   * Looks for lost settlements. Compares the leases if there is a reason, and tries again after a failure.
   */
  onBeat(isReconnected: boolean): void {
    this.#heartbeats++
    if (isReconnected || this.#heartbeats % EVERY_HEARTBEATS === 0) this.#isDue = true
    void this.#run()
  }

  /**
   * Looks for lost settlements once more: this process may end before its next heartbeat. Resolves when they are made
   * again.
   */
  async flush(): Promise<void> {
    await this.#running
    await this.#run()
  }

  #run(): Promise<void> {
    this.#running ??= this.#check()
      .catch(error => {
        this.#isDue = true
        this.#deps.log?.warn({ err: error }, 'leases could not be compared with PostgreSQL; trying again')
      })
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  async #check(): Promise<void> {
    const { store, recent, monotonicMs, settleRecentAgain, log } = this.#deps
    const { latest } = recent
    const askedAtMs = monotonicMs()
    if (latest.length > 0 && (await store.areSettled(latest))) recent.found(latest, askedAtMs)
    else if (latest.length > 0) {
      this.#isDue = true
      // First of all, because their leases may be open again, and their holds pay for them.
      const settlements = await settleRecentAgain()
      log?.error(
        { settlements },
        'PostgreSQL lacks transactions that it had confirmed, as after a failover to an asynchronous standby; settling the last charges of this node again',
      )
    }
    if (this.#isDue) await this.#reconcile()
  }

  async #reconcile(): Promise<void> {
    const { store, node, book } = this.#deps
    this.#isDue = false
    const { nodeId } = node
    const known = book.leaseIds()
    const open = await store.leasesOf(nodeId)
    if (node.nodeId !== nodeId) return
    this.#forgetLost(known, open)
    await this.#endUnknown(open)
  }

  /** Forgets bulk leases that were open before the statement was sent and do not exist: they admit nothing more. */
  #forgetLost(known: readonly string[], open: readonly OpenLease[]): void {
    const { book, log } = this.#deps
    const existing = new Set(open.map(({ leaseId }) => leaseId))
    const lost = known.filter(leaseId => !existing.has(leaseId) && book.has(leaseId))
    for (const leaseId of lost) book.forget(leaseId)
    if (lost.length > 0)
      log?.warn(
        { leases: lost },
        'bulk leases of this node do not exist in PostgreSQL; their requests are settled late',
      )
  }

  /** Ends leases that exist although nothing on this node uses them. */
  async #endUnknown(open: readonly OpenLease[]): Promise<void> {
    const { store, book, isInUse, log } = this.#deps
    const unknown = open.filter(({ leaseId, isBulk }) => !(isBulk && book.has(leaseId)) && !isInUse(leaseId))
    if (unknown.length === 0) return
    log?.warn(
      { leases: unknown.map(({ leaseId }) => leaseId) },
      'PostgreSQL has leases of this node that nothing uses; ending them',
    )
    const strict = unknown.filter(({ isBulk }) => !isBulk).map(({ leaseId }) => leaseId)
    const bulk = unknown.filter(({ isBulk }) => isBulk)
    if (strict.length > 0) await store.release(strict)
    if (bulk.length > 0)
      await store.handBack(
        bulk.map(({ leaseId }) => ({ leaseId, keepNanos: null, slotsUsed: ALL_SLOTS })),
        true,
      )
  }
}
