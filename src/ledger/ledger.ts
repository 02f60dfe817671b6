import { ApiError } from '../domain/errors.ts'
import type { Hold } from '../domain/handoff.ts'
import { failpoint } from '../runtime/failpoint.ts'
import type { Log } from '../runtime/log.ts'
import type { Scheduler } from '../runtime/scheduler.ts'
import type { Journal } from './journal/journal.ts'
import type { Admission, AdmissionResult } from './leases/admission.ts'
import { createAdmissionQueue } from './leases/admission-queue.ts'
import { createExhaustedWindows } from './leases/exhausted-windows.ts'
import { createLeaseBook } from './leases/lease-book.ts'
import { createLeaseReturns } from './leases/lease-returns.ts'
import type { NodeView } from './leases/node-life.ts'
import { createUnconfirmedLeases } from './leases/unconfirmed-leases.ts'
import type { LedgerStore } from './ledger-store.ts'
import type { Settlement } from './settlement/settlement.ts'
import { createSettlementQueue, type RecoveredRecord } from './settlement/settlement-queue.ts'

/** The money of this node: holds before a request runs, charges after it. Every method is safe to call from any number of requests at once. */
export interface Ledger {
  /**
   * Counts the request and holds its worst case. In memory, from a bulk lease, for customers with money to spare; otherwise by a strict
   * lease in one round trip, shared with the admissions that came while the one before was under way.
   * Rejects with ApiError `database_unavailable` when PostgreSQL is needed and cannot be reached within two seconds, and `overloaded`
   * when too much is queued.
   */
  admit(admission: Admission): Promise<AdmissionResult>
  /** What `admit` would answer from memory to one whose window is used up; undefined when it has to be asked. */
  refusalOf(admission: Admission): AdmissionResult | undefined
  /**
   * Resolves when the charge can no longer be lost: it is in the journal, or committed where there is none. What is in the journal is
   * committed soon after, by this process or the next one. Rejects with `settlement_unavailable` when that takes longer than
   * `commitWaitMs` (the request is then free), and for a row that PostgreSQL will never take (a bug, logged: it is free, and has no usage row).
   *
   * Of several settlements of one hold the first counts; the others resolve at once and record nothing.
   *
   * @param hold as `admit` gave it. Rejects where the settlement speaks of another: a bulk lease would wait for its request for ever
   */
  settle(settlement: Settlement, hold: Hold): Promise<void>
  /**
   * Settles what a process before this one left in the journal; resolves when it is committed. Returns how many there were. Rejects when
   * it cannot read them.
   */
  replay(recovered: readonly RecoveredRecord[]): Promise<number>
  /** The node was declared dead: its leases are others' now. */
  fenced(): void
  /** These bulk leases could be of use elsewhere. */
  recall(leaseIds: readonly string[]): void
  /** Resolves when everything queued is committed and all leases are handed back or `timeoutMs` have passed; returns how many settlements are left. */
  drain(timeoutMs: number): Promise<number>
  /** The end: nothing is sent again, what is left is given up. Call it after `drain`. */
  stop(): void
  readonly pending: { readonly admissions: number; readonly settlements: number }
}

export interface LedgerDeps {
  readonly store: LedgerStore
  /** Registered before the first admission. */
  readonly node: NodeView
  /** The shard of usage_hour and usage_day this node writes, 0..32767; nodes that run at the same time should differ. */
  readonly nodeShard: number
  readonly scheduler: Scheduler
  /** Makes ids of bulk leases: UUIDs that are never used again. */
  readonly newId: () => string
  /** Null settles by commit: the end of each answer waits for the database. */
  readonly journal: Journal | null
  /** How long the end of an answer waits for its charge to be safe before the answer is void and free, ms. Default 10,000. */
  readonly commitWaitMs?: number
  /** False admits every request by a strict lease. Default true. */
  readonly bulkLeases?: boolean
  readonly log?: Pick<Log, 'warn' | 'error'>
}

const COMMIT_WAIT_MS = 10_000
const ADMISSIONS_QUEUED_MAX = 20_000
const SETTLEMENTS_QUEUED_MAX = 100_000

/** Creates the ledger of one node. It owns no timer or connection while nothing is under way. */
export function createLedger(deps: LedgerDeps): Ledger {
  const { store, node, scheduler, journal, bulkLeases = true, log } = deps
  const exhausted = createExhaustedWindows(() => scheduler.monotonicMs())
  const unconfirmedLeases = createUnconfirmedLeases({ store, scheduler, log })
  const book = createLeaseBook({
    monotonicMs: () => scheduler.monotonicMs(),
    // What is admitted in memory must not run ahead of a database that cannot follow.
    mayAdmit: () => node.mayAdmit() && !settlements.isLagging(),
    newId: deps.newId,
  })
  const returns = createLeaseReturns({ store, book, scheduler, log })
  const settlements = createSettlementQueue({
    store,
    nodeShard: deps.nodeShard,
    journal,
    book,
    unconfirmedLeases,
    scheduler,
    commitWaitMs: deps.commitWaitMs ?? COMMIT_WAIT_MS,
    log,
  })
  const admissions = createAdmissionQueue({
    store,
    node,
    book,
    returns,
    settlements,
    exhausted,
    unconfirmedLeases,
    scheduler,
    log,
  })

  return {
    refusalOf: admission => exhausted.refuse(admission),
    admit(admission) {
      const refusal = exhausted.refuse(admission)
      if (refusal !== undefined) return Promise.resolve(refusal)
      if (settlements.size >= SETTLEMENTS_QUEUED_MAX || admissions.size >= ADMISSIONS_QUEUED_MAX) {
        return Promise.reject(new ApiError('overloaded', { retryAfterS: 1 }))
      }
      // Exact for any number of nodes: what such a key may spend is known to the database alone.
      if (admission.keyLimit !== null || !bulkLeases) return admissions.admit(admission)
      const result = book.reserve(admission)
      const renewal = admissions.renew(admission)
      if (result !== undefined) return Promise.resolve(result)
      // The lease that is on its way will do for most of those who wait for it, in one update of the balance instead of many.
      if (renewal === undefined) return admissions.admit(admission)
      const sinceMs = scheduler.monotonicMs()
      return renewal.then(() => book.reserve(admission) ?? admissions.admit(admission, sinceMs))
    },
    settle: settlements.settle,
    replay: settlements.replay,
    fenced() {
      book.forgetAll()
      admissions.fenced()
    },
    recall(leaseIds) {
      failpoint('bulk-lease-recalled')
      book.recall(leaseIds)
      returns.collect()
    },
    async drain(timeoutMs) {
      let cancel = () => {}
      const timeout = new Promise<void>(resolve => {
        cancel = scheduler.after(timeoutMs, resolve)
      })
      await Promise.race([timeout, flush()])
      cancel()
      return settlements.size
    },
    stop() {
      for (const part of [admissions, settlements, returns, unconfirmedLeases]) part.stop()
    },
    get pending() {
      return { admissions: admissions.size, settlements: settlements.size }
    },
  }

  async function flush(): Promise<void> {
    await Promise.all([admissions.flush(), settlements.flush()])
    // The late ones were pushed while the others were committed.
    await settlements.flush()
    returns.collect(true)
    await Promise.all([returns.flush(), unconfirmedLeases.sweep()])
  }
}
