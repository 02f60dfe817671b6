import { ApiError } from '../../domain/errors.ts'
import { failpoint } from '../../runtime/failpoint.ts'
import { createPeriodicCheck, type PeriodicCheck } from '../../runtime/periodic-check.ts'
import { BatchQueue } from '../batch-queue.ts'
import { type BulkRequest, type LeaseVerdict, NodeFenced } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'
import type { AdmissionDeps } from './admission-deps.ts'
import type { PendingAdmission, PendingGrant } from './pending-admission.ts'
import { StrictAdmissions } from './strict-admissions.ts'

const ADMISSION_TIMEOUT_MS = 2_000
const WATCH_MS = 250

/** Asks PostgreSQL for leases: strict ones for single requests, and bulk leases for the lease book. */
export class AdmissionQueue {
  readonly #deps: AdmissionDeps
  readonly #queue: BatchQueue<PendingAdmission>
  readonly #strict: StrictAdmissions
  /** For each customer, the pending request for a bulk lease. */
  readonly #renewals = new Map<string, Promise<void>>()
  readonly #watch: PeriodicCheck
  #isStopped = false

  constructor(deps: AdmissionDeps) {
    this.#deps = deps
    const { scheduler } = deps
    this.#queue = new BatchQueue({
      scheduler,
      lingerMs: 0,
      send: batch => this.#send(batch),
      isWanted: entry => !entry.isAnswered,
      onTransientError: (batch, error) => this.#trackUnconfirmed(batch, error),
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
    return this.#queue.size + this.#strict.waiting.size
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
  renew({ customerId, limits }: Admission): Promise<void> | undefined {
    if (this.#isStopped) return undefined
    const running = this.#renewals.get(customerId)
    if (running !== undefined) return running
    const { settlements, book, returns } = this.#deps
    const request = settlements.isLagging() ? undefined : book.wanted(customerId, limits)
    if (request === undefined) return undefined
    const answered = this.#askGrant(request).finally(() => this.#renewals.delete(customerId))
    this.#renewals.set(customerId, answered)
    returns.watch()
    return answered
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
    for (const entry of this.#unanswered()) {
      if (entry.kind === 'bulk') this.#giveUpGrant(entry)
      // The request may have been admitted under the old node id, and its lease reclaimed since. If it were admitted
      // again, it would be free.
      else if (this.#deps.unconfirmedLeases.isTracked(entry.request.requestId))
        this.#strict.reject(entry, new ApiError('database_unavailable', { retryAfterS: 2 }))
    }
  }

  /** Resolves when every entry that is in the queue now was sent or given up. */
  flush(): Promise<void> {
    return this.#queue.flush()
  }

  stop(): void {
    this.#isStopped = true
    this.#strict.stop()
    this.#queue.stop()
    this.#watch.stop()
  }

  // ---------------------------------------------------------------- both kinds of leases

  *#unanswered(): Generator<PendingAdmission, void> {
    yield* this.#queue
    yield* this.#strict.waiting
  }

  #push(entry: PendingAdmission): void {
    this.#queue.push(entry)
    this.#watch.start()
  }

  async #send(batch: readonly PendingAdmission[]): Promise<void> {
    const { store, node, scheduler } = this.#deps
    const sentAtMs = scheduler.monotonicMs()
    failpoint('admissions-before-send')
    const requests = batch.map(entry => entry.request)
    const verdicts = await store.admit(node.nodeId, requests)
    failpoint('admissions-committed')
    for (const verdict of verdicts) {
      const entry = batch[verdict.item]!
      if (entry.kind === 'bulk') this.#answerGrant(entry, verdict, sentAtMs)
      else this.#strict.answer(entry, verdict, sentAtMs)
    }
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

  #askGrant(request: BulkRequest): Promise<void> {
    return new Promise(resolve => {
      const sinceMs = this.#deps.scheduler.monotonicMs()
      this.#push({ kind: 'bulk', request, resolve, sinceMs, isOverdue: false, isAnswered: false })
    })
  }

  #answerGrant(entry: PendingGrant, verdict: LeaseVerdict, sentAtMs: number): void {
    const { book } = this.#deps
    const { request } = entry
    if (entry.isAnswered) {
      if (verdict.kind === 'granted') this.#handBack(request)
      return
    }
    entry.isAnswered = true
    failpoint('bulk-lease-answered')
    if (verdict.kind === 'granted') book.granted(request, verdict, sentAtMs)
    else book.denied(request)
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
