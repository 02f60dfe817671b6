import { ApiError } from '../../../base/domain/errors.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { failpoint } from '../../../base/runtime/failpoint.ts'
import { createPeriodicCheck, type PeriodicCheck } from '../../../base/runtime/scheduler.ts'
import { BatchQueue, lingerFor, logLocked } from '../batch-queue.ts'
import { type BulkRequest, type LeaseVerdict, NodeFenced } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'
import type { AdmissionDeps } from './admission-deps.ts'
import type { PendingAdmission, PendingGrant } from './pending-admission.ts'
import { StrictAdmissions } from './strict-admissions.ts'

const ADMISSION_TIMEOUT_MS = 2_000
const WATCH_MS = 250
/** A batch waits for more requests only if the one before it had this many. One client at a time never waits. */
const LINGER_FROM = 3
/** A call costs PostgreSQL 1.3 ms, and each of its items 0.03 ms. */
const LINGER_MAX_MS = 20
/** How long a lease that is requested ahead of need waits for others. */
const AHEAD_MS = 100

/** Asks PostgreSQL for leases: strict ones for single requests, and bulk leases for the lease book. */
export class AdmissionQueue {
  readonly #deps: AdmissionDeps
  readonly #queue: BatchQueue<PendingAdmission>
  readonly #strict: StrictAdmissions
  /** For each customer, the pending request for a bulk lease. */
  readonly #renewals = new Map<string, Promise<void>>()
  /** Requests for bulk leases that nothing waits for yet. They join the next batch, at the latest after AHEAD_MS. */
  #ahead: PendingGrant[] = []
  #cancelAhead = () => {}
  readonly #watch: PeriodicCheck
  #isStopped = false

  constructor(deps: AdmissionDeps) {
    this.#deps = deps
    const { scheduler } = deps
    this.#queue = new BatchQueue({
      scheduler,
      lingerMs: ({ entries, busyMs }) => (entries < LINGER_FROM ? 0 : lingerFor(busyMs, 0, LINGER_MAX_MS)),
      send: (batch, _attempt, skipsLocked) => this.#send(batch, skipsLocked),
      isWanted: entry => !entry.isAnswered,
      onTransientError: (batch, error) => this.#trackUnconfirmed(batch, error),
      onLocked: entries =>
        logLocked(
          deps.log,
          entries.map(({ request }) => request),
          'admissions',
        ),
      onRejected: (entry, error) => {
        deps.log?.error({ err: error, customer: entry.request.customerId }, 'PostgreSQL rejects an admission')
        this.#reject(entry, error)
      },
    })
    this.#watch = createPeriodicCheck(scheduler, WATCH_MS, () => {
      this.#rejectOverdue()
      return this.size > 0
    })
    this.#strict = new StrictAdmissions(deps, {
      push: entry => this.#push(entry),
      isInFlight: entry => this.#queue.isInFlight(entry),
      watch: this.#watch.start,
    })
  }

  /** Requests that are not answered yet. */
  get size(): number {
    return this.#queue.size + this.#ahead.length + this.#strict.waiting.size
  }

  /**
   * Admits a request by a strict lease. One round trip serves every request that arrived while the previous
   * one was in flight. A request that is refused may be sent again once money or slots come back. Rejects
   * with `database_unavailable` two seconds after `sinceMs`, which defaults to now.
   */
  admit(admission: Admission, sinceMs = this.#deps.scheduler.monotonicMs()): Promise<AdmissionResult> {
    // The book forgets customers that have no recent request.
    this.#deps.returns.watch()
    return this.#strict.admit(admission, sinceMs)
  }

  /**
   * Requests the bulk lease that the book wants for this customer, one per customer at a time. Resolves when the
   * request is answered. Returns undefined when the book wants none.
   */
  renew(admission: Admission): Promise<void> | undefined {
    const pending = this.#renewals.get(admission.customerId) ?? this.#request(admission)
    if (pending !== undefined) this.#pushAhead()
    return pending
  }

  /** Does the same for a customer whose lease still has room. */
  renewAhead(admission: Admission): void {
    if (this.#request(admission) === undefined || this.#ahead.length > 1) return
    this.#cancelAhead = this.#deps.scheduler.after(AHEAD_MS, () => this.#pushAhead())
  }

  /** A settlement of the customer was committed. */
  wake(customerId: string): void {
    this.#strict.lines.wake(customerId)
  }

  /** Requests that wait for credit that running requests of their customers hold. */
  get waitingForCredit(): number {
    return this.#strict.lines.size
  }

  /** Whether this lease is requested and the request is not answered. */
  isAsked(leaseId: string): boolean {
    for (const entry of this.#unanswered()) {
      if (leaseId === (entry.kind === 'bulk' ? entry.request.leaseId : entry.request.requestId)) return true
    }
    return false
  }

  /** This node was declared dead. */
  fenced(): void {
    for (const entry of [...this.#unanswered(), ...this.#strict.lines]) {
      if (entry.kind === 'bulk') this.#giveUpGrant(entry)
      // The request may have been admitted under the old node id, and its lease reclaimed since. If it were admitted
      // again, it would be free.
      else if (this.#deps.unconfirmedLeases.isTracked(entry.request.requestId))
        this.#strict.reject(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
    }
  }

  /** Resolves when every entry that is in the queue now was sent or given up. */
  flush(): Promise<void> {
    this.#pushAhead()
    return this.#queue.drain()
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelAhead()
    this.#strict.stop()
    this.#queue.stop()
    this.#watch.stop()
  }

  // ---------------------------------------------------------------- both kinds of leases

  *#unanswered(): Generator<PendingAdmission, void> {
    yield* this.#queue
    yield* this.#ahead
    yield* this.#strict.waiting
  }

  #push(entry: PendingAdmission): void {
    this.#queue.push(entry)
    this.#watch.start()
    this.#pushAhead()
  }

  async #send(batch: readonly PendingAdmission[], skipsLocked: boolean): Promise<readonly PendingAdmission[]> {
    const { store, node, scheduler } = this.#deps
    const sentAtMs = scheduler.monotonicMs()
    failpoint('admissions-before-send')
    const requests = batch.map(entry => entry.request)
    const verdicts = await store.admit(node.nodeId, requests, skipsLocked)
    failpoint('admissions-committed')
    const locked: PendingAdmission[] = []
    for (const verdict of verdicts) {
      const entry = elementAt(batch, verdict.item)
      if (verdict.kind === 'locked') locked.push(entry)
      else if (entry.kind === 'bulk') this.#answerGrant(entry, verdict, sentAtMs)
      else this.#strict.answer(entry, verdict, sentAtMs)
    }
    return locked
  }

  #trackUnconfirmed(batch: readonly PendingAdmission[], error: unknown): void {
    this.#deps.log?.warn({ err: error, admissions: batch.length }, 'admissions could not be sent; trying again')
    // The transaction granted nothing.
    if (error instanceof NodeFenced) return
    for (const entry of batch) {
      if (entry.kind === 'bulk') this.#trackGrant(entry)
      else this.#strict.trackUnconfirmed(entry)
    }
  }

  #rejectOverdue(): void {
    const overdueMs = this.#deps.scheduler.monotonicMs() - ADMISSION_TIMEOUT_MS
    for (const entry of this.#unanswered()) {
      if (entry.sinceMs > overdueMs) continue
      // Rejected at the second check only. After a stall of this process the answer may be waiting in the
      // socket, and is read in between.
      if (entry.isOverdue) this.#reject(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
      entry.isOverdue = true
    }
  }

  #reject(entry: PendingAdmission, error: unknown): void {
    if (entry.kind === 'bulk') this.#giveUpGrant(entry)
    else this.#strict.reject(entry, error)
  }

  // ---------------------------------------------------------------- bulk leases

  #request({ customerId, limits }: Admission): Promise<void> | undefined {
    const { settlements, book, returns, scheduler } = this.#deps
    if (this.#isStopped || settlements.isLagging()) return undefined
    const request = book.wanted(customerId, limits)
    if (request === undefined) return undefined
    const answered = new Promise<void>(resolve => {
      const sinceMs = scheduler.monotonicMs()
      this.#ahead.push({ kind: 'bulk', request, resolve, sinceMs, isOverdue: false, isAnswered: false })
    }).finally(() => this.#renewals.delete(customerId))
    this.#renewals.set(customerId, answered)
    returns.watch()
    return answered
  }

  #pushAhead(): void {
    if (this.#ahead.length === 0) return
    this.#cancelAhead()
    for (const entry of this.#ahead) this.#queue.push(entry)
    this.#ahead = []
    this.#watch.start()
  }

  #answerGrant(entry: PendingGrant, verdict: LeaseVerdict, sentAtMs: number): void {
    const { book, useReports } = this.#deps
    const { request } = entry
    if (entry.isAnswered) {
      if (verdict.kind === 'granted') this.#handBack(request)
      return
    }
    entry.isAnswered = true
    failpoint('bulk-lease-answered')
    if (verdict.kind === 'granted') {
      book.granted(request, verdict, sentAtMs)
      if (verdict.nodes > 1) useReports.watch()
    } else book.denied(request)
    entry.resolve()
  }

  /**
   * Lets the requests that wait for this lease continue without it. If the lease is granted anyway, it is handed back.
   */
  #giveUpGrant(entry: PendingGrant): void {
    if (entry.isAnswered) return
    entry.isAnswered = true
    this.#deps.book.denied(entry.request)
    entry.resolve()
    if (this.#queue.isInFlight(entry)) this.#handBack(entry.request)
  }

  /** The connection broke after the request was sent: the lease may exist. */
  #trackGrant(entry: PendingGrant): void {
    const { book, unconfirmedLeases } = this.#deps
    const { leaseId } = entry.request
    unconfirmedLeases.trackGrant(leaseId, () => entry.isAnswered && !book.has(leaseId))
  }

  #handBack({ leaseId }: BulkRequest): void {
    this.#deps.returns.push({ leaseId, keepNanos: null, slotsUsed: 0 })
  }
}
