import { ApiError } from '../../domain/errors.ts'
import type { Hold } from '../../domain/handoff.ts'
import { failpoint } from '../../runtime/failpoint.ts'
import { type LinkedItem, LinkedSet } from '../../runtime/linked-set.ts'
import type { Log } from '../../runtime/log.ts'
import { createPeriodicCheck } from '../../runtime/periodic-check.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import { noAccount } from '../accounts/no-account.ts'
import { createBatchQueue } from '../batch-queue.ts'
import type { Journal, JournalEntry } from '../journal/journal.ts'
import type { LeaseBook } from '../leases/lease-book.ts'
import type { UnconfirmedLeases } from '../leases/unconfirmed-leases.ts'
import type { LedgerStore } from '../ledger-store.ts'
import type { Settlement } from './settlement.ts'
import { decodeSettlement, encodeSettlement, RECORD_SEPARATOR } from './settlement-record.ts'
import { createTextArena, type KeptText } from './text-arena.ts'

/** The charges of this node on their way to PostgreSQL. The answers they are for wait for the journal, or where there is none for the commit. */
export interface SettlementQueue {
  /** See Ledger. */
  settle(settlement: Settlement, hold: Hold): Promise<void>
  /** See Ledger. */
  replay(recovered: readonly RecoveredRecord[]): Promise<number>
  /** Not committed yet. */
  readonly size: number
  /** Whether charges of this customer are not committed yet. */
  has(customerId: string): boolean
  /** Whether one of them is so old that what is admitted in memory would run ahead of a database that cannot follow. */
  isLagging(): boolean
  /** Resolves when what is in the queue now is committed or given up. */
  flush(): Promise<void>
  stop(): void
}

/** What a journal still held when it was opened. */
export interface RecoveredRecord {
  readonly payload: Buffer
  /** Called when it is settled. */
  forget(): void
}

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

/** Where nobody waits for the commit, settlements wait for company: fewer transactions, and a balance shown at most this much late. */
export const SETTLE_LINGER_MS = 50
const LAG_MAX_MS = 30_000
const WATCH_MS = 250
/** A full disk refuses each record, and often the log is on it too. */
const REFUSAL_LOG_MS = 10_000

export function createSettlementQueue(deps: SettlementQueueDeps): SettlementQueue {
  const { store, journal, book, unconfirmedLeases, scheduler, commitWaitMs, log } = deps
  const unsettled = new LinkedSet<PendingSettlement>()
  /** By customer, how many. */
  const unsettledOf = new Map<string, number>()
  const arena = createTextArena()
  /** By the journal, since that was logged. */
  let refusedRecords = 0
  let refusalLoggedMs = -Infinity

  const lane = createBatchQueue<PendingSettlement>({
    scheduler,
    lingerMs: journal === null ? 0 : SETTLE_LINGER_MS,
    async send(batch, attempt) {
      failpoint('settlements-before-send')
      const effects = await store.settle(
        deps.nodeShard,
        arena.joined(
          batch.map(entry => entry.record),
          RECORD_SEPARATOR,
        ),
      )
      failpoint('settlements-committed')
      if (effects.size > 0) reportEffects(batch, effects, attempt)
      for (const entry of batch) {
        const effect = effects.size === 0 ? undefined : effects.get(entry.requestId)
        if (effect === 'fenced') settleLate(entry)
        else finish(entry, effect === 'no_account' ? noAccount(settlementOf(entry).customerId) : undefined)
      }
    },
    // One that is finished must not be sent again, whatever broke behind its commit: its bytes are not its own any more.
    isWanted: entry => entry.isListed,
    onBroken(batch, error) {
      log?.warn({ err: error, settlements: batch.length }, 'settlements could not be committed, trying again')
    },
    onRefused(entry, error) {
      const { requestId, leaseId } = entry
      log?.error(
        { err: error, request: requestId },
        'PostgreSQL refuses a settlement: nothing is charged, its lease is released',
      )
      finish(entry, error)
      if (leaseId === requestId) unconfirmedLeases.bury(requestId)
    },
  })

  const watch = createPeriodicCheck(scheduler, WATCH_MS, () => {
    const overdueMs = scheduler.monotonicMs() - commitWaitMs
    let isAwaited = false
    for (const entry of unsettled) {
      if (entry.isSafe) continue
      isAwaited = true
      if (entry.sinceMs <= overdueMs) voidSettlement(entry)
    }
    return isAwaited
  })

  return {
    settle(settlement, hold) {
      // The first may be on its way to the free balance by now, and PostgreSQL could not tell which of the two came first.
      if (!hold.isOpen) return Promise.resolve()
      return new Promise((resolve, reject) => {
        const { costNanos, holdNanos, requestId, leaseId } = settlement
        if (leaseId !== hold.leaseId || holdNanos !== hold.nanos)
          throw new Error(`request ${requestId} does not hold ${holdNanos} of lease ${leaseId}`)
        // No more than the hold is ever charged.
        const chargedNanos = costNanos < holdNanos ? costNanos : holdNanos
        const record = encodeSettlement(settlement)
        // Only now: what cannot be encoded may be settled again, as something else.
        close(hold)
        const isBooked = leaseId !== requestId && book.charge(hold, chargedNanos)
        const entry = enlist(settlement, record, isBooked ? chargedNanos : null, resolve, reject)
        if (journal !== null) writeTo(journal, record, entry)
        watch.start()
      })
    },
    async replay(recovered) {
      if (recovered.length > 0) failpoint('replay-begun')
      // Before the first is queued: what another version wrote keeps the gateway from starting.
      const lastOf = new Map<string, { settlement: Settlement; record: string; forget: () => void }>()
      for (const { payload, forget } of recovered) {
        const record = payload.toString()
        const settlement = decodeSettlement(record)
        const { requestId } = settlement
        // A later record of the request says that it is void: see voidSettlement.
        lastOf.get(requestId)?.forget()
        lastOf.set(requestId, { settlement, record, forget })
      }
      const all = Array.from(lastOf.values(), ({ settlement, record, forget }) => {
        return new Promise<void>((resolve, reject) => {
          enlist(settlement, record, null, resolve, reject).forget = forget
        })
      })
      // One that PostgreSQL refuses was logged, and must not keep the gateway from starting.
      await Promise.all([Promise.allSettled(all), lane.flush()])
      return recovered.length
    },
    get size() {
      return unsettled.size
    },
    has: customerId => unsettledOf.has(customerId),
    isLagging() {
      const { oldest } = unsettled
      return oldest !== undefined && scheduler.monotonicMs() - oldest.sinceMs > LAG_MAX_MS
    },
    flush: lane.flush,
    stop() {
      lane.stop()
      watch.stop()
    },
  }

  /** Queues it. From here on the settlement is bytes alone: see text-arena.ts. */
  function enlist(
    { requestId, customerId, leaseId }: Settlement,
    record: string,
    bookedNanos: bigint | null,
    resolve: () => void,
    reject: (error: unknown) => void,
  ): PendingSettlement {
    const entry: PendingSettlement = {
      requestId,
      customerId,
      leaseId,
      record: arena.keep(record),
      bookedNanos,
      sinceMs: scheduler.monotonicMs(),
      resolve,
      reject,
      isSafe: false,
      written: undefined,
      forget: undefined,
      older: undefined,
      newer: undefined,
      isListed: false,
    }
    unsettled.add(entry)
    unsettledOf.set(customerId, (unsettledOf.get(customerId) ?? 0) + 1)
    lane.push(entry)
    return entry
  }

  function writeTo(journal: Journal, record: string, entry: PendingSettlement): void {
    journal.write(record, (failure, written) => {
      if (written === undefined) {
        noteRefusal(failure)
        void lane.flush()
        return
      }
      const superseded = entry.isListed ? entry.written : written
      if (superseded !== undefined) journal.forget(superseded)
      if (entry.isListed) entry.written = written
      answer(entry, undefined)
    })
  }

  function noteRefusal(failure: unknown): void {
    refusedRecords++
    const nowMs = scheduler.monotonicMs()
    if (nowMs < refusalLoggedMs + REFUSAL_LOG_MS) return
    log?.error(
      { err: failure, records: refusedRecords },
      'the journal takes no records: the ends of answers wait for their commits instead',
    )
    refusedRecords = 0
    refusalLoggedMs = nowMs
  }

  function answer(entry: PendingSettlement, error: unknown): void {
    if (entry.isSafe) return
    entry.isSafe = true
    if (error === undefined) entry.resolve()
    else entry.reject(error)
    // Whoever waited is not to be kept alive by what is left to do.
    entry.resolve = noop
    entry.reject = noop
  }

  function settlementOf(entry: PendingSettlement): Settlement {
    return decodeSettlement(arena.textOf(entry.record))
  }

  /** From its next try on it is sent as this. Returns its record. */
  function rewrite(entry: PendingSettlement, settlement: Settlement): string {
    const record = encodeSettlement(settlement)
    arena.drop(entry.record)
    entry.record = arena.keep(record)
    entry.leaseId = settlement.leaseId
    return record
  }

  /**
   * Its bulk lease was taken from this node while the request ran, or has no room for it: it is charged to the free balance as far as the cap
   * of its day allows, or written off.
   */
  function settleLate(entry: PendingSettlement): void {
    const { leaseId, requestId } = entry
    // Not forgotten: should it exist after all, it has to be handed back.
    book.recall([leaseId])
    if (entry.bookedNanos !== null) book.settled(leaseId, entry.bookedNanos)
    rewrite(entry, { ...settlementOf(entry), leaseId: requestId })
    entry.bookedNanos = null
    lane.push(entry)
  }

  /**
   * Makes a settlement that is not committed yet a free one, because its caller is told so. Whichever commits first wins. The charge may be in
   * the journal, in a sync that has not returned; this is written behind it, and who replays takes the last record of a request.
   */
  function voidSettlement(entry: PendingSettlement): void {
    const record = rewrite(entry, freeOf(settlementOf(entry)))
    if (journal !== null) writeTo(journal, record, entry)
    answer(entry, new ApiError('settlement_unavailable', { retryAfterS: 5 }))
  }

  function finish(entry: PendingSettlement, error: unknown): void {
    const { requestId, leaseId } = entry
    delist(entry)
    arena.drop(entry.record)
    if (entry.bookedNanos !== null) book.settled(leaseId, entry.bookedNanos)
    if (entry.written !== undefined) journal?.forget(entry.written)
    entry.forget?.()
    if (unconfirmedLeases.isSuspect(requestId)) unconfirmedLeases.bury(requestId)
    answer(entry, error)
  }

  function delist(entry: PendingSettlement): void {
    if (!entry.isListed) return
    unsettled.remove(entry)
    const left = unsettledOf.get(entry.customerId)! - 1
    if (left > 0) unsettledOf.set(entry.customerId, left)
    else unsettledOf.delete(entry.customerId)
  }

  function reportEffects(batch: readonly PendingSettlement[], effects: Map<string, string>, attempt: number): void {
    for (const { requestId: request, written, forget } of batch) {
      const effect = effects.get(request)
      if (effect === undefined) continue
      const isReplay = forget !== undefined
      // On a second attempt, and in a replay, a duplicate means that an earlier one did commit.
      const isRepeated = effect === 'duplicate' && (attempt > 0 || written !== undefined || isReplay)
      // The bulk leases of a process that died are gone; what becomes of the charge is told when it is settled late.
      const isExpected = isRepeated || (effect === 'fenced' && isReplay)
      if (!isExpected) log?.warn({ request, effect }, effectMessages[effect] ?? effect)
    }
  }
}

/** Small, since thousands wait: what it leads to lives until it is committed. */
interface PendingSettlement extends LinkedItem<PendingSettlement> {
  readonly requestId: string
  readonly customerId: string
  /** Replaced when its lease is gone. */
  leaseId: string
  /** Replaced when it is voided, or when its lease is gone. */
  record: KeptText
  /** What the lease book counts as charged and not settled; null when it does not know the request. */
  bookedNanos: bigint | null
  readonly sinceMs: number
  resolve: () => void
  reject: (error: unknown) => void
  /** Its caller was answered. */
  isSafe: boolean
  /** Where it is in our own journal. */
  written: JournalEntry | undefined
  /** Drops the record it was recovered from. */
  forget: (() => void) | undefined
}

/** The one thing of a ticket that changes. */
function close(hold: Hold): void {
  ;(hold as { isOpen: boolean }).isOpen = false
}

const noop = () => {}

const effectMessages: Readonly<Record<string, string>> = {
  duplicate: 'this request is settled already (sent twice): nothing more is charged',
  clamped: 'a cost exceeded its lease: the excess is written off',
  late: 'the lease was gone: charged from the free balance',
  written_off: "the lease was gone, and the balance, the daily cap or the key's limit has no room: written off",
  no_account: 'the customer has no account: nothing is charged',
  fenced: 'the bulk lease was taken from this node: the request is settled late',
}

/** The same row, billed nothing: what it would have cost is written off. */
function freeOf(settlement: Settlement): Settlement {
  return {
    ...settlement,
    inputTokens: 0,
    outputTokens: 0,
    costNanos: 0n,
    hosterShareNanos: 0n,
    feeNanos: 0n,
    writeoffNanos: settlement.writeoffNanos + settlement.costNanos,
    success: false,
    outcome: 'internal_error',
  }
}
