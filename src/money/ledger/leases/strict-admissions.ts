import type { WindowCounts } from '../../../base/domain/windows.ts'
import { noAccount } from '../accounts/open-account.ts'
import type { LeaseVerdict, StoredWindows } from '../ledger-store.ts'
import { type Admission, type AdmissionResult, isRefusedByWindow, type RefusalCode } from './admission.ts'
import type { AdmissionDeps, AdmissionSender } from './admission-deps.ts'
import { CreditLines } from './credit-lines.ts'
import { allOrNothing, type PendingStrict, type Refused } from './pending-admission.ts'
import { createRetryWait, type RetryWait } from './retry-wait.ts'

type Granted = Extract<LeaseVerdict, { kind: 'granted' }>

/**
 * Admits single requests by strict leases. A request that is refused may wait for money or slots to come
 * back, and is then sent again.
 */
export class StrictAdmissions {
  readonly #deps: AdmissionDeps
  readonly #sender: AdmissionSender
  readonly #retryWait: RetryWait
  /** Refused requests that wait for credit that running requests of their customers hold. */
  readonly lines: CreditLines
  /** Refused requests that wait to be sent again for another reason. */
  readonly waiting: Set<PendingStrict> = new Set()
  #isStopped = false

  constructor(deps: AdmissionDeps, sender: AdmissionSender) {
    this.#deps = deps
    this.#sender = sender
    this.#retryWait = createRetryWait(deps)
    this.lines = new CreditLines({
      ...deps,
      send: entry => sender.push(entry),
      reject: (entry, error) => this.reject(entry, error),
    })
  }

  admit(admission: Admission, sinceMs: number): Promise<AdmissionResult> {
    return new Promise((resolve, reject) => {
      const entry: PendingStrict = {
        kind: 'strict',
        request: this.#mayComeBack(admission.customerId) ? allOrNothing(admission) : admission,
        leastNanos: admission.ask?.floorNanos ?? 0n,
        resolve,
        reject,
        sinceMs,
        isOverdue: false,
        isAnswered: false,
        waitedFor: { settlements: false, ownLeases: false, otherNodes: false },
        place: undefined,
      }
      if (!this.lines.joinBehind(entry)) this.#sender.push(entry)
    })
  }

  answer(entry: PendingStrict, verdict: LeaseVerdict, sentAtMs: number): void {
    const { unconfirmedLeases } = this.#deps
    const { requestId, customerId } = entry.request
    if (entry.isAnswered) {
      if (verdict.kind === 'granted') unconfirmedLeases.abandon(requestId)
      return
    }
    if (verdict.kind === 'refused' && !this.#isStopped && !entry.place?.isOver) {
      if (this.lines.keep(entry, verdict)) return
      const returned = this.#retryWait(entry, verdict)
      if (returned !== undefined) {
        // Not abandoned here: the retry may be granted, and its lease would be released while the request runs.
        this.#retryAfter(returned, entry, verdict)
        return
      }
    }
    // An earlier try may have been granted and its answer lost.
    if (verdict.kind !== 'granted' && unconfirmedLeases.isTracked(requestId)) unconfirmedLeases.abandon(requestId)
    entry.isAnswered = true
    this.lines.ended(entry, verdict)
    if (verdict.kind === 'granted') this.#grant(entry, verdict)
    else if (verdict.kind === 'refused') this.#refuse(entry, verdict, sentAtMs)
    else if (verdict.kind === 'counted')
      entry.resolve({ kind: 'counted', windows: this.#deps.book.requestsMade.note(customerId, verdict.windows) })
    else entry.reject(noAccount(customerId))
  }

  reject(entry: PendingStrict, error: unknown): void {
    if (entry.isAnswered) return
    entry.isAnswered = true
    this.waiting.delete(entry)
    this.lines.ended(entry)
    const { unconfirmedLeases } = this.#deps
    const { requestId } = entry.request
    if (unconfirmedLeases.isTracked(requestId) || this.#sender.isInFlight(entry)) unconfirmedLeases.abandon(requestId)
    entry.reject(error)
  }

  /** The connection broke after the request was sent: its lease may exist. */
  trackUnconfirmed(entry: PendingStrict): void {
    if (entry.request.ask === null) return
    const { unconfirmedLeases } = this.#deps
    const { requestId } = entry.request
    // A request that was given up since must not be tracked as running forever.
    if (entry.isAnswered) unconfirmedLeases.abandon(requestId)
    else unconfirmedLeases.track(requestId)
  }

  stop(): void {
    this.#isStopped = true
    this.lines.stop()
  }

  #grant(entry: PendingStrict, { heldNanos, windows: stored }: Granted): void {
    const { request, resolve } = entry
    const { unconfirmedLeases, book } = this.#deps
    unconfirmedLeases.use(request.requestId)
    const windows = book.requestsMade.note(request.customerId, stored)
    resolve({
      kind: 'granted',
      hold: { leaseId: request.requestId, nanos: heldNanos, isOpen: true },
      windows,
      ...this.#waited(entry),
    })
  }

  #refuse(entry: PendingStrict, verdict: Refused, sentAtMs: number): void {
    const { request, resolve } = entry
    const { code, postedNanos, freeNanos, capLeftNanos, key, member, isHeldElsewhere, databaseNowMs } = verdict
    const windows = usedUp(
      code,
      verdict.windows,
      this.#deps.book.requestsMade.note(request.customerId, verdict.windows),
    )
    const refusal = {
      ...({ kind: 'refused', code, postedNanos, freeNanos, capLeftNanos, key, member, windows } as const),
      ...this.#waited(entry),
    }
    // Slots that other nodes hold may come back before the window ends.
    if (!isHeldElsewhere) this.#deps.exhausted.remember(request, refusal, sentAtMs, databaseNowMs)
    resolve(refusal)
  }

  /** How long a request has waited for credit. */
  #waited({ place }: PendingStrict): { readonly waitedMs?: number } {
    return place === undefined ? {} : { waitedMs: this.#deps.scheduler.monotonicMs() - place.sinceMs }
  }

  /** Whether this node holds money of the customer that may come back soon. */
  #mayComeBack(customerId: string): boolean {
    const { settlements, book } = this.#deps
    return settlements.has(customerId) || book.hasLease(customerId)
  }

  #retryAfter(returned: Promise<void>, entry: PendingStrict, { code, windows }: Refused): void {
    if (!isRefusedByWindow(code)) {
      entry.request = { ...entry.request, countedUntilEpochMs: windows.minuteEndsAtEpochMs }
    }
    this.waiting.add(entry)
    this.#sender.watch()
    void returned.then(() => {
      // False when the entry was rejected while it waited.
      if (this.waiting.delete(entry)) this.#sender.push(entry)
    })
  }
}

/** A client that is refused by a window has nothing left of it, even if leases of other nodes still hold requests. */
function usedUp(code: RefusalCode, { minuteCounted, dayCounted }: StoredWindows, made: WindowCounts): WindowCounts {
  if (code === 'rate_limit_exceeded') return { ...made, minuteUsed: minuteCounted }
  if (code === 'daily_limit_exceeded') return { ...made, dayUsed: dayCounted }
  return made
}
