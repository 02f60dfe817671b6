import { ApiError } from '../../base/domain/errors.ts'
import type { Hold } from '../../base/domain/handoff.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Scheduler } from '../../base/runtime/scheduler.ts'
import type { Journal } from './journal/journal.ts'
import type { Admission, AdmissionResult } from './leases/admission.ts'
import { AdmissionQueue } from './leases/admission-queue.ts'
import { LeaseBook } from './leases/lease-book.ts'
import { LeaseReconciliation } from './leases/lease-reconciliation.ts'
import { createLeaseReturns } from './leases/lease-returns.ts'
import type { NodeView } from './leases/node-life.ts'
import { createExhaustedWindows } from './leases/rate-windows.ts'
import { UnconfirmedLeases } from './leases/unconfirmed-leases.ts'
import { createUseReports } from './leases/use-reports.ts'
import type { LedgerStore, StoredWindows } from './ledger-store.ts'
import { RecentSettlements } from './settlement/recent-settlements.ts'
import type { RecoveredRecord } from './settlement/recovered-settlements.ts'
import { createSettleAgain } from './settlement/settle-again.ts'
import type { Settlement } from './settlement/settlement.ts'
import { SettlementQueue } from './settlement/settlement-queue.ts'

/**
 * The money of this node: holds before a request runs, charges after it. Any number of requests may call it
 * at once.
 */
export interface Ledger {
  /**
   * Counts the request and holds its worst case: in memory, from a bulk lease, for customers with a large
   * enough balance; otherwise by a strict lease in one round trip, which it shares with the admissions that
   * arrived during the previous one. Rejects with ApiError `database_unavailable` when PostgreSQL is needed
   * and does not answer within two seconds, and `overloaded` when too much is queued.
   *
   * With `creditWait`, a request that would fit once running requests of its customer have settled waits for them.
   */
  admit(admission: Admission): Promise<AdmissionResult>
  /**
   * Returns the refusal that `admit` would give from memory to a caller that has used up its window. Undefined when
   * `admit` must be called.
   */
  refusalOf(admission: Admission): AdmissionResult | undefined
  /** What this node could hold for the customer from its bulk lease; 0 without one. */
  leaseLeftNanos(customerId: string): bigint
  /**
   * Resolves when the charge can no longer be lost: it is in the journal, or without a journal it is
   * committed. A charge in the journal is committed soon after, by this process or the next one. Rejects with
   * `settlement_unavailable` when that takes longer than `commitWaitMs` (the request is then free), and with
   * PostgreSQL's error when PostgreSQL rejects the row (a bug, logged: the request is free and has no usage
   * row).
   *
   * If a hold is settled several times, the first settlement counts. The others resolve at once and record
   * nothing.
   *
   * @param hold the object that `admit` returned. Rejects when the settlement names another hold, because a bulk
   *   lease would then wait for its request forever
   */
  settle(settlement: Settlement, hold: Hold): Promise<void>
  /** Adds the requests that this node served from bulk leases to the windows of a customer. */
  requestsMade(windows: StoredWindows): WindowCounts
  /** What running requests and uncommitted charges need of these bulk leases of this node. */
  owedNanos(leaseIds: readonly string[]): bigint
  /**
   * Resolves when the charges of this customer's ended requests on this node are committed or given up, at the latest
   * after `timeoutMs`. Undefined when there are none.
   */
  committed(customerId: string, timeoutMs: number): Promise<void> | undefined
  /**
   * Settles what an earlier process left in the journal. Resolves with the number of records when they are
   * committed. Rejects when it cannot read them.
   */
  replay(recovered: readonly RecoveredRecord[]): Promise<number>
  /** The node was declared dead, and its leases were reclaimed. */
  fenced(): void
  /** See LeaseReconciliation. */
  onBeat(isReconnected: boolean): void
  /** Other nodes need the unused part of these bulk leases. */
  recall(leaseIds: readonly string[]): void
  /**
   * Resolves when everything queued is committed and all leases are handed back, or after `timeoutMs`.
   * Returns how many settlements are left.
   */
  drain(timeoutMs: number): Promise<number>
  /** Stops sending and gives up what is left. Call it after `drain`. */
  stop(): void
  readonly pending: {
    readonly admissions: number
    readonly settlements: number
    /** How long the oldest of them has been waiting; 0 without any. */
    readonly oldestSettlementMs: number
    /** Requests that wait for credit that running requests of their customers hold. */
    readonly waitingForCredit: number
  }
}

export interface LedgerDeps {
  readonly store: LedgerStore
  /** Registered before the first admission. */
  readonly node: NodeView
  /**
   * The shard of usage_hour and usage_day that this node writes, 0..32767. Nodes that run at the same time
   * should differ.
   */
  readonly nodeShard: number
  readonly scheduler: Scheduler
  /** Makes ids of bulk leases: UUIDs that are never used again. */
  readonly newId: () => string
  /** Null settles by commit: the end of each answer waits for the database. */
  readonly journal: Journal | null
  /**
   * How long the end of an answer waits for its charge to be safe before the answer is void and free, ms.
   * Default 10,000.
   */
  readonly commitWaitMs?: number
  /** False admits every request by a strict lease. Default true. */
  readonly bulkLeases?: boolean
  readonly log?: Pick<Log, 'warn' | 'error'>
}

const COMMIT_WAIT_MS = 10_000
const ADMISSIONS_QUEUED_MAX = 20_000
const SETTLEMENTS_QUEUED_MAX = 100_000

/** Creates the ledger of one node. It holds no timer or connection while it is idle. */
export function createLedger(deps: LedgerDeps): Ledger {
  const { scheduler, bulkLeases = true } = deps
  const parts = createParts(deps)
  const { exhausted, book, returns, settlements, again, admissions, unconfirmedLeases, reconciliation, useReports } =
    parts

  return {
    refusalOf: admission => exhausted.refuse(admission),
    leaseLeftNanos: customerId => book.leftNanos(customerId),
    admit(admission) {
      const refusal = exhausted.refuse(admission)
      if (refusal !== undefined) return Promise.resolve(refusal)
      if (settlements.size >= SETTLEMENTS_QUEUED_MAX) return overloaded()
      // Only the database knows what a key or member with a spend limit may still spend, exactly and for any number of
      // nodes.
      const mayUseBulk = admission.keyLimit === null && admission.memberLimit === null && bulkLeases
      const result = mayUseBulk ? book.admit(admission) : undefined
      if (result !== undefined) return Promise.resolve(result)
      if (admissions.size >= ADMISSIONS_QUEUED_MAX) return overloaded()
      const renewal = mayUseBulk ? admissions.renew(admission) : undefined
      if (renewal === undefined) return admissions.admit(admission)
      // The pending bulk lease will serve most requests that wait for it, with one update of the balance
      // instead of many.
      const sinceMs = scheduler.monotonicMs()
      return renewal.then(() => book.reserve(admission) ?? admissions.admit(admission, sinceMs))
    },
    settle: (settlement, hold) => settlements.settle(settlement, hold),
    requestsMade: windows => book.requestsMade.of(windows),
    owedNanos: leaseIds => book.owedNanos(leaseIds),
    committed: (customerId, timeoutMs) =>
      settlements.has(customerId) ? within(scheduler, timeoutMs, settlements.flush(customerId)) : undefined,
    replay: recovered => settlements.replay(recovered),
    fenced() {
      book.forgetAll()
      admissions.fenced()
    },
    onBeat(isReconnected) {
      reconciliation.onBeat(isReconnected)
      if (deps.node.hasPeers()) useReports.watch()
    },
    recall(leaseIds) {
      failpoint('bulk-lease-recalled')
      book.recall(leaseIds)
      returns.collect()
    },
    async drain(timeoutMs) {
      await within(scheduler, timeoutMs, flush(parts))
      return settlements.size + again.size
    },
    stop() {
      for (const part of [admissions, settlements, returns, unconfirmedLeases, useReports]) part.stop()
    },
    get pending() {
      const { size, waitingForCredit } = admissions
      const { oldestMs: oldestSettlementMs } = settlements
      return { admissions: size, settlements: settlements.size + again.size, oldestSettlementMs, waitingForCredit }
    },
  }
}

function overloaded(): Promise<never> {
  return Promise.reject(new ApiError('overloaded', { retryAfterS: 1 }))
}

type Parts = ReturnType<typeof createParts>

function createParts(deps: LedgerDeps) {
  const { store, node, nodeShard, scheduler, journal, newId, commitWaitMs = COMMIT_WAIT_MS, log } = deps
  const monotonicMs = () => scheduler.monotonicMs()
  // When the database cannot keep up with settlements, admit no more requests in memory.
  const mayAdmit = () => node.mayAdmit() && !settlements.isLagging()
  const exhausted = createExhaustedWindows(monotonicMs)
  const onEnded = (customerId: string) => admissions.wake(customerId)
  const unconfirmedLeases = new UnconfirmedLeases({ store, scheduler, onEnded, log })
  const book = new LeaseBook({
    monotonicMs,
    mayAdmit,
    newId,
    onLow: admission => admissions.renewAhead(admission),
  })
  const returns = createLeaseReturns({ store, book, scheduler, log })
  const useReports = createUseReports({ store, node, book, scheduler, log })
  const recent = new RecentSettlements(store, monotonicMs)
  const shared = { store, book, unconfirmedLeases, scheduler, log }
  const settlements: SettlementQueue = new SettlementQueue({
    ...shared,
    store: recent,
    nodeShard,
    journal,
    commitWaitMs,
  })
  const again = createSettleAgain({ journal, scheduler, replay: records => settlements.replay(records), log })
  const admissions: AdmissionQueue = new AdmissionQueue({
    ...shared,
    node,
    returns,
    useReports,
    settlements,
    exhausted,
  })
  const reconciliation = new LeaseReconciliation({
    store,
    node,
    book,
    recent,
    monotonicMs,
    log,
    isInUse: leaseId => unconfirmedLeases.has(leaseId) || admissions.isAsked(leaseId),
    settleRecentAgain: () => recent.settleAgain(again.run),
  })
  return { exhausted, unconfirmedLeases, book, returns, settlements, again, admissions, reconciliation, useReports }
}

async function flush({ admissions, settlements, reconciliation, returns, unconfirmedLeases }: Parts): Promise<void> {
  await Promise.all([admissions.flush(), settlements.flush()])
  // Late settlements were pushed while the others were committed.
  await settlements.flush()
  await reconciliation.flush()
  returns.collect(true)
  await Promise.all([returns.flush(), unconfirmedLeases.sweep()])
}

/** Resolves with the promise, at the latest after `timeoutMs`. */
async function within(scheduler: Scheduler, timeoutMs: number, promise: Promise<void>): Promise<void> {
  let cancel = () => {}
  const timeout = new Promise<void>(resolve => {
    cancel = scheduler.after(timeoutMs, resolve)
  })
  await Promise.race([timeout, promise])
  cancel()
}
