import { type Aged, AgeList } from '../domain/age-list.ts'
import { ApiError } from '../domain/errors.ts'
import type { Hold } from '../domain/handoff.ts'
import type { Nanos } from '../domain/money.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { failpoint } from '../failpoint.ts'
import type { Journal, JournalEntry } from '../journal/journal.ts'
import { type Admission, type AdmissionResult, isRefusedByWindow } from './admission.ts'
import { createExhaustedWindows } from './exhausted-windows.ts'
import { createGhosts } from './ghosts.ts'
import { createLane } from './lane.ts'
import { createLeaseBook } from './lease-book.ts'
import { type BulkRequest, type LeaseReturn, type LeaseVerdict, type LedgerStore, NodeFenced } from './ledger-store.ts'
import type { NodeView } from './node-life.ts'
import type { Settlement } from './settlement.ts'
import { decodeSettlement, encodeSettlement, RECORD_SEPARATOR } from './settlement-record.ts'
import { createTextArena, type KeptText } from './text-arena.ts'

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

/** What a journal still held when it was opened. */
export interface RecoveredRecord {
  readonly payload: Buffer
  /** Called when it is settled. */
  forget(): void
}

/** The part of a pino logger that is used. */
export interface LedgerLog {
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
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
  readonly log?: LedgerLog
}

const ADMIT_PATIENCE_MS = 2_000
const COMMIT_WAIT_MS = 10_000
const WATCH_MS = 250
const ADMISSIONS_QUEUED_MAX = 20_000
const SETTLEMENTS_QUEUED_MAX = 100_000
/** Where nobody waits for the commit, settlements wait for company: fewer transactions, and a balance shown at most this much late. */
const SETTLE_LINGER_MS = 50
/** Settlements that are older than this stop bulk leases: what is admitted in memory must not run ahead of a database that cannot follow. */
const SETTLE_LAG_MAX_MS = 30_000
/** How often leases that are idle, out of date or done are looked for. */
const COLLECT_MS = 1_000
/** Other nodes learn with their next heartbeat that a lease is recalled. */
const RECALL_WAIT_MS = 1_200
/** What ended on another node is committed by then as a rule: after its linger, in some milliseconds. */
const COMMIT_ELSEWHERE_MS = SETTLE_LINGER_MS * 2
/** So long who can do with less, or is refused all the same, waits for what may come back here. */
const BRIEF_WAIT_MS = 500

/** Creates the ledger of one node. It owns no timer or connection while nothing is under way. */
export function createLedger(deps: LedgerDeps): Ledger {
  const { store, node, scheduler, journal, log, commitWaitMs = COMMIT_WAIT_MS } = deps
  const exhausted = createExhaustedWindows(() => scheduler.monotonicMs())
  const book = createLeaseBook({
    monotonicMs: () => scheduler.monotonicMs(),
    mayAdmit: () => node.mayAdmit() && !isLagging(),
    newId: deps.newId,
  })
  const unsettled = new AgeList<PendingSettlement>()
  /** By customer, how many. */
  const unsettledOf = new Map<string, number>()
  const arena = createTextArena()
  /** Refused for want of what may come back within a moment: they wait for it, to be sent again. */
  const patient = new Set<PendingStrict>()
  /** Per customer, the bulk lease that is being asked for. */
  const renewals = new Map<string, Promise<void>>()
  const ghosts = createGhosts({ store, scheduler, log })
  const cancels = { watch: noop, collect: noop }
  let watching = false
  let collecting = false
  let stopped = false

  const admissions = createLane<PendingAdmission>({
    scheduler,
    lingerMs: 0,
    async send(batch) {
      const sentAtMs = scheduler.monotonicMs()
      failpoint('admissions-before-send')
      const verdicts = await store.admit(
        node.nodeId,
        batch.map(entry => entry.request),
      )
      failpoint('admissions-committed')
      for (const verdict of verdicts) answerAdmission(batch[verdict.item]!, verdict, sentAtMs)
    },
    isWanted: entry => !entry.isAnswered,
    onBroken(batch, error) {
      log?.warn({ err: error, admissions: batch.length }, 'admissions could not be sent, trying again')
      // Nothing happened then.
      if (error instanceof NodeFenced) return
      for (const entry of batch) {
        if (entry.kind === 'bulk') {
          const { leaseId } = entry.request
          ghosts.suspectGrant(leaseId, () => entry.isAnswered && !book.has(leaseId))
        } else if (entry.request.ask !== null) {
          // One that was given up meanwhile is looked after from now on; it must not count as running for ever.
          if (entry.isAnswered) ghosts.bury(entry.request.requestId)
          else ghosts.suspect(entry.request.requestId)
        }
      }
    },
    onRefused(entry, error) {
      log?.error({ err: error, customer: entry.request.customerId }, 'PostgreSQL refuses an admission')
      rejectAdmission(entry, error)
    },
  })

  const settlements = createLane<PendingSettlement>({
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
      if (leaseId === requestId) ghosts.bury(requestId)
    },
  })

  const handBacks = createLane<LeaseReturn>({
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

  return {
    refusalOf: admission => exhausted.refuse(admission),
    admit(admission) {
      const refusal = exhausted.refuse(admission)
      if (refusal !== undefined) return Promise.resolve(refusal)
      if (unsettled.size >= SETTLEMENTS_QUEUED_MAX || admissions.size + patient.size >= ADMISSIONS_QUEUED_MAX) {
        return Promise.reject(new ApiError('overloaded', { retryAfterS: 1 }))
      }
      // Exact for any number of nodes: what such a key may spend is known to the database alone.
      if (admission.keyLimit !== null) return admitStrictly(admission)
      const result = book.reserve(admission)
      const renewal = renew(admission)
      if (result !== undefined) return Promise.resolve(result)
      // The lease that is on its way will do for most of those who wait for it, in one update of the balance instead of many.
      if (renewal === undefined) return admitStrictly(admission)
      const sinceMs = scheduler.monotonicMs()
      return renewal.then(() => book.reserve(admission) ?? admitStrictly(admission, sinceMs))
    },
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
        if (journal === null) watch()
        else writeTo(journal, record, entry)
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
      await Promise.all([Promise.allSettled(all), settlements.flush()])
      return recovered.length
    },
    fenced() {
      book.forgetAll()
      for (const entry of unanswered()) {
        if (entry.kind === 'bulk') giveUpGrant(entry)
        // Sent under the old id it may have been admitted and taken for dead since: admitted again, it would be free.
        else if (ghosts.isSuspect(entry.request.requestId))
          rejectAdmission(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
      }
    },
    recall(leaseIds) {
      failpoint('bulk-lease-recalled')
      book.recall(leaseIds)
      handBackIdle()
    },
    async drain(timeoutMs) {
      let cancel = noop
      const timeout = new Promise<void>(resolve => {
        cancel = scheduler.after(timeoutMs, resolve)
      })
      await Promise.race([timeout, flushAll()])
      cancel()
      return settlements.size
    },
    stop() {
      stopped = true
      for (const lane of [admissions, settlements, handBacks]) lane.stop()
      for (const cancel of Object.values(cancels)) cancel()
      ghosts.stop()
    },
    get pending() {
      return { admissions: admissions.size + patient.size, settlements: unsettled.size }
    },
  }

  // ---------------------------------------------------------------- admissions

  function admitStrictly(admission: Admission, sinceMs = scheduler.monotonicMs()): Promise<AdmissionResult> {
    return new Promise((resolve, reject) => {
      pushAdmission({
        kind: 'strict',
        request: mayComeBack(admission.customerId) ? wholly(admission) : admission,
        leastNanos: admission.ask?.floorNanos ?? 0n,
        resolve,
        reject,
        sinceMs,
        isOverdue: false,
        isAnswered: false,
        waitedFor: { settlements: false, ownLeases: false, otherNodes: false },
      })
    })
  }

  function* unanswered(): Iterable<PendingAdmission> {
    yield* admissions
    yield* patient
  }

  function pushAdmission(entry: PendingAdmission): void {
    admissions.push(entry)
    watch()
  }

  /** Asks for a bulk lease if it is time; returns the one that is being asked for. */
  function renew({ customerId, limits }: Admission): Promise<void> | undefined {
    if (deps.bulkLeases === false || stopped) return undefined
    const running = renewals.get(customerId)
    if (running !== undefined) return running
    const request = isLagging() ? undefined : book.wanted(customerId, limits)
    if (request === undefined) return undefined
    const asked = new Promise<void>(resolve => {
      pushAdmission({
        kind: 'bulk',
        request,
        resolve,
        sinceMs: scheduler.monotonicMs(),
        isOverdue: false,
        isAnswered: false,
      })
    }).finally(() => renewals.delete(customerId))
    renewals.set(customerId, asked)
    collectSoon()
    return asked
  }

  function answerAdmission(entry: PendingAdmission, verdict: LeaseVerdict, sentAtMs: number): void {
    if (entry.kind === 'bulk') answerGrant(entry, verdict, sentAtMs)
    else answerStrict(entry, verdict, sentAtMs)
  }

  function answerGrant(entry: PendingGrant, verdict: LeaseVerdict, sentAtMs: number): void {
    if (entry.isAnswered) {
      if (verdict.kind === 'granted') handBacks.push({ leaseId: entry.request.leaseId, keepNanos: null, slotsUsed: 0 })
      return
    }
    entry.isAnswered = true
    failpoint('bulk-lease-answered')
    if (verdict.kind === 'granted') book.granted(entry.request, verdict, sentAtMs)
    else book.denied(entry.request)
    entry.resolve()
  }

  /** Those who wait for it go on by themselves. Should it be granted all the same, it is handed back. */
  function giveUpGrant(entry: PendingGrant): void {
    if (entry.isAnswered) return
    entry.isAnswered = true
    book.denied(entry.request)
    entry.resolve()
    if (admissions.isUnderWay(entry)) handBacks.push({ leaseId: entry.request.leaseId, keepNanos: null, slotsUsed: 0 })
  }

  function answerStrict(entry: PendingStrict, verdict: LeaseVerdict, sentAtMs: number): void {
    const { request: admission } = entry
    const { requestId } = admission
    if (entry.isAnswered) {
      if (verdict.kind === 'granted') ghosts.bury(requestId)
      return
    }
    if (verdict.kind === 'refused') {
      const returned = whatMayComeBack(entry, verdict)
      if (returned !== undefined) {
        // Not buried here: the next try may be granted, and its lease would be released under the running request.
        tryAgainAfter(returned, entry, verdict)
        return
      }
    }
    // An earlier try, whose answer was lost, may have been granted.
    if (verdict.kind !== 'granted' && ghosts.isSuspect(requestId)) ghosts.bury(requestId)
    entry.isAnswered = true
    switch (verdict.kind) {
      case 'granted':
        // Keys with a limit never use a bulk lease, so they are no reason to ask for one.
        if (admission.keyLimit === null) book.observe(admission)
        entry.resolve({
          kind: 'granted',
          hold: { leaseId: requestId, nanos: verdict.heldNanos, isOpen: true },
          windows: verdict.windows,
        })
        return
      case 'counted':
        entry.resolve({ kind: 'counted', windows: verdict.windows })
        return
      case 'refused': {
        const { code, postedNanos, freeNanos, capLeftNanos, key, windows } = verdict
        const refusal = { kind: 'refused', code, postedNanos, freeNanos, capLeftNanos, key, windows } as const
        // Slots that other nodes hold may come back before the window ends.
        if (!verdict.isHeldElsewhere) exhausted.remember(admission, refusal, sentAtMs, verdict.databaseNowMs)
        entry.resolve(refusal)
        return
      }
      default:
        entry.reject(noAccount(admission.customerId))
    }
  }

  /** Money that is held here and not needed: some of it is free again as soon as it is asked for. */
  function mayComeBack(customerId: string): boolean {
    return unsettledOf.has(customerId) || book.hasLease(customerId)
  }

  /**
   * What it was refused for may come back within a moment: the holds of requests that have ended here, when they are settled; what our
   * own bulk leases have to spare; and what other nodes have, who settle as soon as we do, and whose leases the refusal recalled. Each is
   * waited for once, and the last only by who cannot do with less than it asked for at first. Resolves when the next of them is back;
   * undefined when nothing is left to wait for.
   */
  function whatMayComeBack(entry: PendingStrict, refusal: Refused): Promise<void> | undefined {
    if (stopped) return undefined
    const { request, waitedFor } = entry
    const { customerId, ask } = request
    const { code, freeNanos, capLeftNanos, isHeldElsewhere, nodes } = refusal
    const isForRequests = isRefusedByWindow(code)
    const isForHolds = code === 'in_flight_budget'
    const canDoWithLess = ask !== null && ask.floorNanos > entry.leastNanos
    // Also where nothing is to be had, so that the refusal tells what is spent.
    if (!isForRequests && !waitedFor.settlements && unsettledOf.has(customerId)) {
      waitedFor.settlements = true
      const settled = settlements.flush()
      return isForHolds && !canDoWithLess ? settled : briefly(settled)
    }
    const isShort = ask !== null && (freeNanos < ask.floorNanos || capLeftNanos < ask.floorNanos)
    const isLeased = isShort && (isForHolds || canDoWithLess)
    if ((isForRequests || isLeased) && !waitedFor.ownLeases && book.recallCustomer(customerId)) {
      waitedFor.ownLeases = true
      handBackIdle()
      const returned = handBacks.flush()
      return canDoWithLess ? briefly(returned) : returned
    }
    if (canDoWithLess && !isForRequests) {
      entry.request = { ...request, ask: { ...ask, floorNanos: entry.leastNanos } }
      return Promise.resolve()
    }
    // Not for a place in the window: who is at a limit of requests would have thousands of them wait here.
    if (isForHolds && !waitedFor.otherNodes && (isHeldElsewhere || nodes > 1)) {
      waitedFor.otherNodes = true
      return passing(isHeldElsewhere ? RECALL_WAIT_MS : COMMIT_ELSEWHERE_MS)
    }
    return undefined
  }

  function briefly(returned: Promise<void>): Promise<void> {
    return Promise.race([returned, passing(BRIEF_WAIT_MS)])
  }

  function passing(ms: number): Promise<void> {
    return new Promise(resolve => scheduler.after(ms, resolve))
  }

  function tryAgainAfter(returned: Promise<void>, entry: PendingStrict, { code, windows }: Refused): void {
    if (!isRefusedByWindow(code)) {
      entry.request = { ...entry.request, countedUntilEpochMs: windows.minuteEndsAtEpochMs }
    }
    patient.add(entry)
    watch()
    void returned.then(() => {
      // It may have been rejected meanwhile.
      if (patient.delete(entry)) pushAdmission(entry)
    })
  }

  function rejectAdmission(entry: PendingAdmission, error: unknown): void {
    if (entry.kind === 'bulk') {
      giveUpGrant(entry)
      return
    }
    if (entry.isAnswered) return
    entry.isAnswered = true
    patient.delete(entry)
    const { requestId } = entry.request
    if (ghosts.isSuspect(requestId) || admissions.isUnderWay(entry)) ghosts.bury(requestId)
    entry.reject(error)
  }

  // ---------------------------------------------------------------- settlements

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
    settlements.push(entry)
    return entry
  }

  function writeTo(journal: Journal, record: string, entry: PendingSettlement): void {
    journal.write(record, (failure, written) => {
      if (written === undefined) {
        log?.error({ err: failure }, 'the journal takes no record: the end of the answer waits for its commit instead')
        void settlements.flush()
        watch()
        return
      }
      const superseded = entry.isListed ? entry.written : written
      if (superseded !== undefined) journal.forget(superseded)
      if (entry.isListed) entry.written = written
      answer(entry, undefined)
    })
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

  /** Its bulk lease was taken from this node while the request ran, or has no room for it: it is charged to the free balance, or written off. */
  function settleLate(entry: PendingSettlement): void {
    const { leaseId, requestId } = entry
    // Not forgotten: should it exist after all, it has to be handed back.
    book.recall([leaseId])
    if (entry.bookedNanos !== null) book.settled(leaseId, entry.bookedNanos)
    rewrite(entry, { ...settlementOf(entry), leaseId: requestId })
    entry.bookedNanos = null
    settlements.push(entry)
  }

  function finish(entry: PendingSettlement, error: unknown): void {
    const { requestId, leaseId } = entry
    delist(entry)
    arena.drop(entry.record)
    if (entry.bookedNanos !== null) book.settled(leaseId, entry.bookedNanos)
    if (entry.written !== undefined) journal?.forget(entry.written)
    entry.forget?.()
    if (ghosts.isSuspect(requestId)) ghosts.bury(requestId)
    answer(entry, error)
  }

  function delist(entry: PendingSettlement): void {
    if (!entry.isListed) return
    unsettled.remove(entry)
    const left = unsettledOf.get(entry.customerId)! - 1
    if (left > 0) unsettledOf.set(entry.customerId, left)
    else unsettledOf.delete(entry.customerId)
  }

  function isLagging(): boolean {
    const { oldest } = unsettled
    return oldest !== undefined && scheduler.monotonicMs() - oldest.sinceMs > SETTLE_LAG_MAX_MS
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

  // ---------------------------------------------------------------- what is looked after from time to time

  /** Ends the wait of those who waited longer than a client should. */
  function watch(): void {
    if (watching || stopped) return
    watching = true
    cancels.watch = scheduler.after(WATCH_MS, () => {
      watching = false
      const nowMs = scheduler.monotonicMs()
      for (const entry of unanswered()) {
        if (entry.sinceMs > nowMs - ADMIT_PATIENCE_MS) continue
        // Seen twice, with a turn of the event loop between: after a stall of this process the answer may be waiting to be read.
        // PostgreSQL may still carry it out, hence the ghosts.
        if (entry.isOverdue) rejectAdmission(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
        entry.isOverdue = true
      }
      let waiting = 0
      for (const entry of unsettled) {
        if (entry.isSafe) continue
        waiting++
        if (entry.sinceMs <= nowMs - commitWaitMs) voidSettlement(entry)
      }
      if (admissions.size > 0 || patient.size > 0 || waiting > 0) watch()
    })
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

  function handBackIdle(all = false): void {
    for (const lease of book.collect(all)) handBacks.push(lease)
  }

  function collectSoon(): void {
    if (collecting || stopped) return
    collecting = true
    cancels.collect = scheduler.after(COLLECT_MS, () => {
      collecting = false
      handBackIdle()
      if (book.size > 0) collectSoon()
    })
  }

  async function flushAll(): Promise<void> {
    await Promise.all([admissions.flush(), settlements.flush()])
    // The late ones were pushed while the others were committed.
    await settlements.flush()
    handBackIdle(true)
    await Promise.all([handBacks.flush(), ghosts.sweep()])
  }
}

type Refused = Extract<LeaseVerdict, { kind: 'refused' }>

type PendingAdmission = PendingStrict | PendingGrant

interface PendingStrict {
  readonly kind: 'strict'
  request: Admission
  /** The least that it takes. What is sent may ask for more at first: see `wholly`. */
  readonly leastNanos: Nanos
  readonly resolve: (result: AdmissionResult) => void
  readonly reject: (error: unknown) => void
  readonly sinceMs: number
  isOverdue: boolean
  isAnswered: boolean
  readonly waitedFor: { settlements: boolean; ownLeases: boolean; otherNodes: boolean }
}

interface PendingGrant {
  readonly kind: 'bulk'
  readonly request: BulkRequest
  /** Those who wait for it go on, granted or not. */
  readonly resolve: () => void
  readonly sinceMs: number
  isOverdue: boolean
  isAnswered: boolean
}

/** Small, since thousands wait: what it leads to lives until it is committed. */
interface PendingSettlement extends Aged<PendingSettlement> {
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

/** The same, for all it wants or nothing: what may come back is not to make its answer shorter. */
function wholly(admission: Admission): Admission {
  const { ask } = admission
  return ask === null || ask.floorNanos === ask.wantNanos
    ? admission
    : { ...admission, ask: { ...ask, floorNanos: ask.wantNanos } }
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
  written_off: 'the lease was gone and the balance is not free: written off',
  no_account: 'the customer has no account: nothing is charged',
  fenced: 'the bulk lease was taken from this node: the request is settled late',
}

function noAccount(customerId: string): Error {
  return new Error(`customer ${customerId} has no account: openAccount was never called for it`)
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
