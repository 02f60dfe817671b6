import { ApiError } from '../../domain/errors.ts'
import type { Nanos } from '../../domain/money.ts'
import { failpoint } from '../../runtime/failpoint.ts'
import type { Log } from '../../runtime/log.ts'
import { createPeriodicCheck } from '../../runtime/periodic-check.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import { noAccount } from '../accounts/no-account.ts'
import { createBatchQueue } from '../batch-queue.ts'
import { type BulkRequest, type LeaseVerdict, type LedgerStore, NodeFenced } from '../ledger-store.ts'
import { SETTLE_LINGER_MS, type SettlementQueue } from '../settlement/settlement-queue.ts'
import { type Admission, type AdmissionResult, isRefusedByWindow } from './admission.ts'
import type { ExhaustedWindows } from './exhausted-windows.ts'
import type { LeaseBook } from './lease-book.ts'
import type { LeaseReturns } from './lease-returns.ts'
import type { NodeView } from './node-life.ts'
import type { UnconfirmedLeases } from './unconfirmed-leases.ts'

/** Asks PostgreSQL for leases: strict ones for single requests, and bulk leases for the book. */
export interface AdmissionQueue {
  /**
   * By a strict lease, in a round trip that is shared with those that came while the one before was under way; in several, where what it is
   * refused for may come back within a moment. Rejects with `database_unavailable` two seconds after `sinceMs`, which is now by default.
   */
  admit(admission: Admission, sinceMs?: number): Promise<AdmissionResult>
  /** Asks for the bulk lease that the book wants for this customer, if any. Resolves when that is answered; undefined when nothing is asked for. */
  renew(admission: Admission): Promise<void> | undefined
  /** The node was declared dead. */
  fenced(): void
  /** Not answered yet. */
  readonly size: number
  /** Resolves when what is in the queue now is carried out or given up. */
  flush(): Promise<void>
  stop(): void
}

export interface AdmissionQueueDeps {
  readonly store: Pick<LedgerStore, 'admit'>
  readonly node: NodeView
  readonly book: LeaseBook
  readonly returns: LeaseReturns
  readonly settlements: Pick<SettlementQueue, 'has' | 'isLagging' | 'flush'>
  readonly exhausted: ExhaustedWindows
  readonly unconfirmedLeases: UnconfirmedLeases
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn' | 'error'> | undefined
}

const PATIENCE_MS = 2_000
const WATCH_MS = 250
/** Other nodes learn with their next heartbeat that a lease is recalled. */
const RECALL_WAIT_MS = 1_200
/** What ended on another node is committed by then as a rule: after its linger, in some milliseconds. */
const COMMIT_ELSEWHERE_MS = SETTLE_LINGER_MS * 2
/** So long who can do with less, or is refused all the same, waits for what may come back here. */
const BRIEF_WAIT_MS = 500

export function createAdmissionQueue(deps: AdmissionQueueDeps): AdmissionQueue {
  const { store, node, book, returns, settlements, exhausted, unconfirmedLeases, scheduler, log } = deps
  /** Refused for want of what may come back within a moment: they wait for it, to be sent again. */
  const GENEROUS_TIMEOUTS = new Set<PendingStrict>()
  /** Per customer, the bulk lease that is being asked for. */
  const renewals = new Map<string, Promise<void>>()
  let stopped = false

  const lane = createBatchQueue<PendingAdmission>({
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
      for (const verdict of verdicts) answer(batch[verdict.item]!, verdict, sentAtMs)
    },
    isWanted: entry => !entry.isAnswered,
    onBroken(batch, error) {
      log?.warn({ err: error, admissions: batch.length }, 'admissions could not be sent, trying again')
      // Nothing happened then.
      if (error instanceof NodeFenced) return
      for (const entry of batch) {
        if (entry.kind === 'bulk') {
          const { leaseId } = entry.request
          unconfirmedLeases.suspectGrant(leaseId, () => entry.isAnswered && !book.has(leaseId))
        } else if (entry.request.ask !== null) {
          // One that was given up meanwhile is looked after from now on; it must not count as running for ever.
          if (entry.isAnswered) unconfirmedLeases.bury(entry.request.requestId)
          else unconfirmedLeases.suspect(entry.request.requestId)
        }
      }
    },
    onRefused(entry, error) {
      log?.error({ err: error, customer: entry.request.customerId }, 'PostgreSQL refuses an admission')
      reject(entry, error)
    },
  })

  /** Ends the wait of those who waited longer than a client should. */
  const watch = createPeriodicCheck(scheduler, WATCH_MS, () => {
    const overdueMs = scheduler.monotonicMs() - PATIENCE_MS
    for (const entry of unanswered()) {
      if (entry.sinceMs > overdueMs) continue
      // Seen twice, with a turn of the event loop between: after a stall of this process the answer may be waiting to be read.
      // PostgreSQL may still carry it out, hence the unconfirmedLeases.
      if (entry.isOverdue) reject(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
      entry.isOverdue = true
    }
    return lane.size + GENEROUS_TIMEOUTS.size > 0
  })

  return {
    admit: (admission, sinceMs = scheduler.monotonicMs()) =>
      new Promise((resolve, reject) => {
        push({
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
      }),
    renew({ customerId, limits }) {
      if (stopped) return undefined
      const running = renewals.get(customerId)
      if (running !== undefined) return running
      const request = settlements.isLagging() ? undefined : book.wanted(customerId, limits)
      if (request === undefined) return undefined
      const asked = new Promise<void>(resolve => {
        push({
          kind: 'bulk',
          request,
          resolve,
          sinceMs: scheduler.monotonicMs(),
          isOverdue: false,
          isAnswered: false,
        })
      }).finally(() => renewals.delete(customerId))
      renewals.set(customerId, asked)
      returns.watch()
      return asked
    },
    fenced() {
      for (const entry of unanswered()) {
        if (entry.kind === 'bulk') giveUpGrant(entry)
        // Sent under the old id it may have been admitted and taken for dead since: admitted again, it would be free.
        else if (unconfirmedLeases.isSuspect(entry.request.requestId))
          reject(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
      }
    },
    get size() {
      return lane.size + GENEROUS_TIMEOUTS.size
    },
    flush: lane.flush,
    stop() {
      stopped = true
      lane.stop()
      watch.stop()
    },
  }

  function* unanswered(): Iterable<PendingAdmission> {
    yield* lane
    yield* GENEROUS_TIMEOUTS
  }

  function push(entry: PendingAdmission): void {
    lane.push(entry)
    watch.start()
  }

  function answer(entry: PendingAdmission, verdict: LeaseVerdict, sentAtMs: number): void {
    if (entry.kind === 'bulk') answerGrant(entry, verdict, sentAtMs)
    else answerStrict(entry, verdict, sentAtMs)
  }

  function answerGrant(entry: PendingGrant, verdict: LeaseVerdict, sentAtMs: number): void {
    if (entry.isAnswered) {
      if (verdict.kind === 'granted') returns.push({ leaseId: entry.request.leaseId, keepNanos: null, slotsUsed: 0 })
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
    if (lane.isUnderWay(entry)) returns.push({ leaseId: entry.request.leaseId, keepNanos: null, slotsUsed: 0 })
  }

  function answerStrict(entry: PendingStrict, verdict: LeaseVerdict, sentAtMs: number): void {
    const { request: admission } = entry
    const { requestId } = admission
    if (entry.isAnswered) {
      if (verdict.kind === 'granted') unconfirmedLeases.bury(requestId)
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
    if (verdict.kind !== 'granted' && unconfirmedLeases.isSuspect(requestId)) unconfirmedLeases.bury(requestId)
    entry.isAnswered = true
    switch (verdict.kind) {
      case 'granted':
        // Keys with a limit never use a bulk lease, so they are no reason to ask for one.
        if (admission.keyLimit === null) {
          book.observe(admission)
          // The same look that hands leases back forgets customers who are gone.
          returns.watch()
        }
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
    return settlements.has(customerId) || book.hasLease(customerId)
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
    if (!isForRequests && !waitedFor.settlements && settlements.has(customerId)) {
      waitedFor.settlements = true
      const settled = settlements.flush()
      return isForHolds && !canDoWithLess ? settled : briefly(settled)
    }
    const isShort = ask !== null && (freeNanos < ask.floorNanos || capLeftNanos < ask.floorNanos)
    const isLeased = isShort && (isForHolds || canDoWithLess)
    if ((isForRequests || isLeased) && !waitedFor.ownLeases && book.recallCustomer(customerId)) {
      waitedFor.ownLeases = true
      returns.collect()
      const returned = returns.flush()
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
    GENEROUS_TIMEOUTS.add(entry)
    watch.start()
    void returned.then(() => {
      // It may have been rejected meanwhile.
      if (GENEROUS_TIMEOUTS.delete(entry)) push(entry)
    })
  }

  function reject(entry: PendingAdmission, error: unknown): void {
    if (entry.kind === 'bulk') {
      giveUpGrant(entry)
      return
    }
    if (entry.isAnswered) return
    entry.isAnswered = true
    GENEROUS_TIMEOUTS.delete(entry)
    const { requestId } = entry.request
    if (unconfirmedLeases.isSuspect(requestId) || lane.isUnderWay(entry)) unconfirmedLeases.bury(requestId)
    entry.reject(error)
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

/** The same, for all it wants or nothing: what may come back is not to make its answer shorter. */
function wholly(admission: Admission): Admission {
  const { ask } = admission
  return ask === null || ask.floorNanos === ask.wantNanos
    ? admission
    : { ...admission, ask: { ...ask, floorNanos: ask.wantNanos } }
}
