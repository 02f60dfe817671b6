import { ApiError } from '../../../base/domain/errors.ts'
import type { Hold } from '../../../base/domain/handoff.ts'
import { chargeWithinHold, type Nanos } from '../../../base/domain/money.ts'
import { LinkedSet } from '../../../base/runtime/collections.ts'
import { failpoint } from '../../../base/runtime/failpoint.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicCheck, type PeriodicCheck, type Scheduler } from '../../../base/runtime/scheduler.ts'
import { noAccount } from '../accounts/open-account.ts'
import type { Journal } from '../journal/journal.ts'
import type { BulkLease } from '../leases/bulk-lease.ts'
import type { LeaseBook } from '../leases/lease-book.ts'
import type { UnconfirmedLeases } from '../leases/unconfirmed-leases.ts'
import type { LedgerStore } from '../ledger-store.ts'
import { PendingSettlement } from './pending-settlement.ts'
import { type RecoveredRecord, recoveredSettlements } from './recovered-settlements.ts'
import {
  closeHold,
  decodeSettlement,
  encodeSettlement,
  RECORD_SEPARATOR,
  type Settlement,
  voided,
} from './settlement.ts'
import { SettlementLanes } from './settlement-lanes.ts'
import { createJournalRefusalLog, logSettleEffects } from './settlement-log.ts'
import { createTextArena, type JoinTexts } from './text-arena.ts'

export interface SettlementQueueDeps {
  readonly store: Pick<LedgerStore, 'settle'>
  readonly nodeShard: number
  readonly journal: Journal | null
  readonly book: LeaseBook
  readonly unconfirmedLeases: UnconfirmedLeases
  readonly scheduler: Scheduler
  /** How long an answer waits for its charge to be safe before it is void and free, ms. */
  readonly commitWaitMs: number
  readonly log: Pick<Log, 'warn' | 'error'> | undefined
}

const LAG_MAX_MS = 30_000
const WATCH_MS = 250
/** How often one segment of the journal, of 4 MiB at most, is read and compared, ms. */
const VERIFY_MS = 1_000

/**
 * Commits the charges of this node. A caller waits until its charge is in the journal, or without one until the commit.
 */
export class SettlementQueue {
  readonly #deps: SettlementQueueDeps
  /** Settlements that are not committed, oldest first. */
  readonly #pending = new LinkedSet<PendingSettlement>()
  readonly #arena = createTextArena()
  readonly #lanes: SettlementLanes
  readonly #watch: PeriodicCheck
  readonly #verification: PeriodicCheck
  readonly #journal: SettlementJournal

  constructor(deps: SettlementQueueDeps) {
    this.#deps = deps
    this.#lanes = new SettlementLanes({
      scheduler: deps.scheduler,
      log: deps.log,
      isAwaited: deps.journal === null,
      send: (batch, attempt, skipsLocked, join) => this.#send(batch, attempt, skipsLocked, join),
      // Not when it is finished, whatever failed after its commit: its bytes may be reused by now.
      isWanted: entry => entry.isListed,
      hasUncommitted: customerId => deps.book.hasUncommitted(customerId),
      onRejected: (entry, error) => this.#reject(entry, error),
    })
    this.#watch = createPeriodicCheck(deps.scheduler, WATCH_MS, () => this.#voidOverdue())
    this.#verification = createPeriodicCheck(deps.scheduler, VERIFY_MS, () => this.#verifyJournal())
    this.#journal = createSettlementJournal({ ...deps, onRefused: () => void this.#lanes.flush() })
  }

  get size(): number {
    return this.#pending.size
  }

  has(customerId: string): boolean {
    return this.#lanes.has(customerId)
  }

  /** Whether the oldest charge has waited so long that no more requests should be admitted in memory. */
  isLagging(): boolean {
    return this.oldestMs > LAG_MAX_MS
  }

  /** How long the oldest charge has been waiting; 0 without any. */
  get oldestMs(): number {
    const { oldest } = this.#pending
    return oldest === undefined ? 0 : this.#deps.scheduler.monotonicMs() - oldest.sinceMs
  }

  /** See Ledger.settle. */
  settle(settlement: Settlement, hold: Hold): Promise<void> {
    // Ignore a second settlement here. The first may be charged late, to the free balance, and then PostgreSQL
    // could not tell which of the two came first.
    if (!hold.isOpen) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const { costNanos, holdNanos, requestId, leaseId } = settlement
      if (leaseId !== hold.leaseId || holdNanos !== hold.nanos)
        throw new Error(`request ${requestId} does not hold ${holdNanos} of lease ${leaseId}`)
      const { book } = this.#deps
      const chargedNanos = chargeWithinHold(costNanos, holdNanos)
      const record = encodeSettlement(settlement)
      // Closed after encoding: a settlement that cannot be encoded may be settled again as another.
      closeHold(hold)
      const lease = book.charge(hold, chargedNanos)
      const entry = this.#enlist(settlement, record, lease, chargedNanos)
      entry.awaitFor({ resolve, reject })
      this.#journal.write(record, entry)
      this.#watch.start()
      if (this.#deps.journal !== null) this.#verification.start()
    })
  }

  #verifyJournal(): boolean {
    const { journal } = this.#deps
    void journal?.verify().then(hasLost => {
      if (hasLost) this.#journal.writeAgain(this.#pending, entry => this.#arena.textOf(entry.record))
    })
    return (journal?.entries ?? 0) > 0
  }

  /** See Ledger.replay. */
  async replay(recovered: readonly RecoveredRecord[]): Promise<number> {
    if (recovered.length > 0) failpoint('replay-begun')
    // Decode all records before the first is queued: only one of another version may keep the gateway from starting.
    const ended = recoveredSettlements(recovered).map(({ settlement, record, forget }) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#enlist(settlement, record, undefined, 0n).onEnded = resolve
      return promise.then(forget)
    })
    await Promise.all([...ended, this.#lanes.flush()])
    return recovered.length
  }

  /** Resolves when every settlement that is queued now, or every one of this customer, is committed or given up. */
  flush(customerId?: string): Promise<void> {
    return this.#lanes.flush(customerId)
  }

  stop(): void {
    this.#lanes.stop()
    this.#watch.stop()
    this.#verification.stop()
  }

  /** Queues a settlement, which is kept only as bytes from here on: see `KeptText`. */
  #enlist(
    settlement: Settlement,
    record: string,
    lease: BulkLease | undefined,
    chargedNanos: Nanos,
  ): PendingSettlement {
    const kept = this.#arena.keep(record)
    const sinceMs = this.#deps.scheduler.monotonicMs()
    const entry = new PendingSettlement(settlement, kept, lease, chargedNanos, sinceMs)
    this.#pending.add(entry)
    this.#lanes.push(entry)
    return entry
  }

  async #send(batch: readonly PendingSettlement[], attempt: number, skipsLocked: boolean, join: JoinTexts) {
    const { store, nodeShard, log } = this.#deps
    failpoint('settlements-before-send')
    const records = batch.map(entry => entry.record)
    const effects = await store.settle(nodeShard, join(records, RECORD_SEPARATOR), skipsLocked)
    failpoint('settlements-committed')
    if (effects.size > 0) logSettleEffects(log, batch, effects, attempt)
    const locked: PendingSettlement[] = []
    for (const entry of batch) {
      const effect = effects.size === 0 ? undefined : effects.get(entry.requestId)
      if (effect === 'locked') locked.push(entry)
      else if (effect === 'fenced') this.#settleLate(entry)
      else this.#finish(entry, effect === 'no_account' ? noAccount(entry.customerId) : undefined)
    }
    return locked
  }

  /**
   * The bulk lease was taken from this node while the request ran, or has no room for it, or the request was sent
   * again at another node. Sends the settlement again without the lease: it is charged to the free balance as far as
   * the daily cap allows, or written off.
   */
  #settleLate(entry: PendingSettlement): void {
    const { book } = this.#deps
    const { leaseId, requestId } = entry
    // The book keeps the lease: if it exists after all, it must be handed back.
    book.recall([leaseId])
    this.#lanes.remove(entry)
    entry.leaveLease()
    this.#rewrite(entry, { ...this.#settlementOf(entry), leaseId: requestId })
    this.#lanes.push(entry)
  }

  #reject(entry: PendingSettlement, error: unknown): void {
    const { unconfirmedLeases, log } = this.#deps
    const { requestId, leaseId } = entry
    log?.error(
      { err: error, request: requestId },
      'PostgreSQL rejects a settlement; nothing is charged and its lease is released',
    )
    this.#finish(entry, error)
    if (leaseId === requestId) unconfirmedLeases.abandon(requestId)
  }

  #finish(entry: PendingSettlement, error: unknown): void {
    const { unconfirmedLeases } = this.#deps
    if (entry.isListed) this.#lanes.remove(entry)
    this.#pending.remove(entry)
    this.#arena.drop(entry.record)
    entry.leaveLease()
    this.#journal.forget(entry)
    if (entry.leaseId === entry.requestId) unconfirmedLeases.ended(entry.requestId, entry.customerId)
    entry.answer(error)
    entry.onEnded?.()
  }

  /** Voids the settlements that have waited too long. Returns whether a caller still waits. */
  #voidOverdue(): boolean {
    const { scheduler, commitWaitMs } = this.#deps
    const overdueMs = scheduler.monotonicMs() - commitWaitMs
    let isAwaited = false
    for (const entry of this.#pending) {
      if (!entry.isAwaited) continue
      isAwaited = true
      if (entry.sinceMs <= overdueMs) this.#void(entry)
    }
    return isAwaited
  }

  /**
   * Replaces an uncommitted settlement by a free one, because the caller is about to learn that the request is free.
   * The first of the two to commit wins. The charge may be in the journal already, in a sync that has not returned: a
   * replay uses the last record of a request. A client that has left learns nothing, so the charge for what it received
   * stays.
   */
  #void(entry: PendingSettlement): void {
    const settlement = this.#settlementOf(entry)
    if (settlement.outcome !== 'client_gone') this.#journal.write(this.#rewrite(entry, voided(settlement)), entry)
    entry.answer(new ApiError('settlement_unavailable', { retryAfterS: 5 }))
  }

  #settlementOf(entry: PendingSettlement): Settlement {
    return decodeSettlement(this.#arena.textOf(entry.record))
  }

  /** Changes what the next attempt sends. Returns the new record. */
  #rewrite(entry: PendingSettlement, settlement: Settlement): string {
    const record = encodeSettlement(settlement)
    this.#arena.drop(entry.record)
    entry.record = this.#arena.keep(record)
    entry.leaseId = settlement.leaseId
    return record
  }
}

export interface SettlementJournalDeps {
  readonly journal: Journal | null
  readonly scheduler: Pick<Scheduler, 'monotonicMs'>
  readonly log: Pick<Log, 'error'> | undefined
  /** The record is not in the journal: only a commit makes the charge safe. */
  readonly onRefused: () => void
}

/** The records of uncommitted settlements in the journal of this node. Does nothing when there is no journal. */
export interface SettlementJournal {
  /** Answers the caller of the settlement when its record is in the journal. The record before it is forgotten then. */
  write(record: string, entry: PendingSettlement): void
  /** The settlement is committed or given up. */
  forget(entry: PendingSettlement): void
  /**
   * Writes the settlements again that have records in damaged segments, or of an earlier process. An answer that still
   * waits for its record is not safe yet.
   */
  writeAgain(entries: Iterable<PendingSettlement>, recordOf: (entry: PendingSettlement) => string): void
}

export function createSettlementJournal({ journal, scheduler, log, onRefused }: SettlementJournalDeps) {
  const logRefusal = createJournalRefusalLog(scheduler, log)
  const records: SettlementJournal = {
    write(record, entry) {
      journal?.write(record, (failure, written) => {
        if (written === undefined) {
          logRefusal(failure)
          onRefused()
          return
        }
        const superseded = entry.isListed ? entry.written : written
        if (superseded !== undefined) journal.forget(superseded)
        if (entry.isListed) entry.written = written
        entry.answer()
      })
    },
    forget({ written }) {
      if (written !== undefined) journal?.forget(written)
    },
    writeAgain(entries, recordOf) {
      for (const entry of entries) {
        const isSafe = entry.written !== undefined && journal?.isIntact(entry.written)
        if (!isSafe && !entry.isAwaited) records.write(recordOf(entry), entry)
      }
    },
  }
  return records
}
