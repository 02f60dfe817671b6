import { ApiError } from '../../../base/domain/errors.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import { createPeriodicCheck, type PeriodicCheck } from '../../../base/runtime/scheduler.ts'
import type { LeaseVerdict } from '../ledger-store.ts'
import type { AdmissionDeps } from './admission-deps.ts'
import { allOrNothing, type PendingStrict, type PlaceInLine, type Refused, withLeast } from './pending-admission.ts'

export interface CreditLinesDeps extends Pick<AdmissionDeps, 'book' | 'returns' | 'settlements' | 'scheduler'> {
  /** Sends a request to PostgreSQL. `keep` gets a refusal, `ended` any other verdict. */
  readonly send: (entry: PendingStrict) => void
  /** Ends a request without a verdict. */
  readonly reject: (entry: PendingStrict, error: ApiError) => void
}

/**
 * Places for waiting requests on a node. A customer may take as many of them as are free, up to CUSTOMER_PLACES_MAX.
 */
const PLACES_MAX = 1_024
const CUSTOMER_PLACES_MAX = 256
/** Another node may have settled a request, or credit was added: the first of each line is tried this often. */
const POLL_MS = 500

/**
 * The requests that would fit once running requests of the same customer have settled. They wait for those in the order
 * of their arrival. One line of a customer waits for the balance and the daily spend cap. Each key and each member with
 * a spend limit has another, so that a used-up limit stops no other key. When this node has committed a settlement of
 * the customer, the first of each line is tried, and after it as many as its verdict shows to fit: a line of hundreds
 * costs PostgreSQL little.
 */
export class CreditLines {
  readonly #deps: CreditLinesDeps
  readonly #customers = new Map<string, WaitingCustomer>()
  readonly #poll: PeriodicCheck
  #places = 0

  constructor(deps: CreditLinesDeps) {
    this.#deps = deps
    this.#poll = createPeriodicCheck(deps.scheduler, POLL_MS, () => {
      for (const customer of this.#customers.values()) this.#tryLines(customer)
      return this.#places > 0
    })
  }

  /** Requests that wait, including those that are being tried. */
  get size(): number {
    return this.#places
  }

  /**
   * Places a new request behind those that wait for the same credit. Returns false when none waits, when this one may
   * not wait, or when it cannot fit even if nothing runs.
   */
  joinBehind(entry: PendingStrict): boolean {
    const customer = this.#customers.get(entry.request.customerId)
    const lineId = customer && lineIdsOf(entry.request).find(id => customer.isWaitingIn(id))
    if (customer === undefined || lineId === undefined || entry.leastNanos > customer.postedNanos) return false
    if (!this.#takePlace(customer, entry, lineId)) return false
    return true
  }

  /** Keeps a refused request waiting. Returns false when waiting does not help, or not any longer. */
  keep(entry: PendingStrict, refusal: Refused): boolean {
    const { request, place } = entry
    if (refusal.code !== 'in_flight_budget' || request.ask === null) return false
    const { customerId } = request
    const customer = this.#customers.get(customerId) ?? new WaitingCustomer()
    const lineId = lineIdOf(refusal, entry)
    if (place === undefined) {
      if (!this.#takePlace(customer, entry, lineId)) return false
      this.#customers.set(customerId, customer)
      // Not for a smaller hold at first: the answer could be cut off although its credit is about to come back.
      if (request.ask.wantNanos <= refusal.postedNanos) entry.request = allOrNothing(request)
      if (customer.entries.length === 1) void this.#deps.settlements.flush(customerId)
    } else if (request.creditWait!.signal.aborted) {
      this.#deps.reject(entry, abortedError(entry))
      return true
    } else if (place.isOver) return false
    // The next one of the line that it leaves may fit.
    else if (place.lineId !== lineId) customer.isDue = true
    const { minuteEndsAtEpochMs } = refusal.windows
    entry.request = { ...entry.request, countedUntilEpochMs: minuteEndsAtEpochMs }
    entry.place!.lineId = lineId
    entry.place!.isTried = false
    customer.postedNanos = refusal.postedNanos
    this.#recallLeases(customerId)
    if (customer.isDue) this.#tryLines(customer)
    return true
  }

  /** Frees the place of a request that is answered. `verdict` is undefined if it was given up. */
  ended(entry: PendingStrict, verdict?: LeaseVerdict): void {
    const { place, request } = entry
    if (place === undefined) return
    const customer = this.#customers.get(request.customerId)!
    place.free()
    this.#places--
    const waiting: readonly PendingStrict[] = customer.entries
    customer.entries.splice(waiting.indexOf(entry), 1)
    if (customer.entries.length === 0) this.#customers.delete(request.customerId)
    if (verdict?.kind === 'granted') {
      const leftNanos = lesser(verdict.freeNanos, verdict.capLeftNanos) - verdict.heldNanos
      customer.roomNanos = lesser(customer.roomNanos ?? leftNanos, leftNanos)
      customer.isDue = true
    } else if (verdict?.kind === 'refused' && verdict.code !== 'in_flight_budget') {
      // The limit that ended this wait probably ends others too. Each gets a verdict of its own.
      customer.triesAll = true
      customer.isDue = true
    }
    if (customer.isDue) this.#tryLines(customer)
  }

  /** A settlement of the customer was committed. */
  wake(customerId: string): void {
    const customer = this.#places === 0 ? undefined : this.#customers.get(customerId)
    if (customer === undefined || customer.isWoken) return
    customer.isWoken = true
    // Once for all settlements of a batch.
    this.#deps.scheduler.soon(() => {
      customer.isWoken = false
      this.#tryLines(customer)
    })
  }

  *[Symbol.iterator](): Generator<PendingStrict, void> {
    for (const { entries } of this.#customers.values()) yield* entries
  }

  stop(): void {
    for (const entry of [...this]) this.#deps.reject(entry, new ApiError('server_shutdown'))
    this.#poll.stop()
  }

  #takePlace(customer: WaitingCustomer, entry: PendingStrict, lineId: string): boolean {
    const { creditWait: wait } = entry.request
    if (wait === undefined || wait.forMs <= 0 || wait.signal.aborted) return false
    if (customer.entries.length >= Math.min(CUSTOMER_PLACES_MAX, PLACES_MAX - this.#places)) return false
    const { scheduler } = this.#deps
    const onAbort = () => this.#onAbort(queued)
    wait.signal.addEventListener('abort', onAbort)
    const cancelEnd = scheduler.after(wait.forMs, () => this.#onEnd(queued))
    const free = () => {
      cancelEnd()
      wait.signal.removeEventListener('abort', onAbort)
    }
    const place = { sinceMs: scheduler.monotonicMs(), lineId, isTried: false, isOver: false, free }
    const queued = Object.assign(entry, { place })
    customer.entries.push(queued)
    this.#places++
    this.#poll.start()
    return true
  }

  /** The time of a request is over: it is tried a last time, now with its smallest hold. */
  #onEnd(entry: QueuedStrict): void {
    entry.place.isOver = true
    entry.request = withLeast(entry)
    if (!entry.place.isTried) this.#send(entry)
  }

  /** The client left. A request that is being tried gets its verdict first. */
  #onAbort(entry: QueuedStrict): void {
    if (entry.place.isTried) return
    this.#deps.reject(entry, abortedError(entry))
    const { request } = entry
    if (request.countedUntilEpochMs !== undefined) return
    // Every valid request counts against the windows.
    const unseen = { isAnswered: false, place: undefined, resolve: () => {}, reject: () => {} }
    this.#deps.send({ ...entry, ...unseen, request: { ...request, ask: null } })
  }

  /**
   * Takes the bulk leases of this node back. For ten seconds it requests no other, so that nothing overtakes the line.
   */
  #recallLeases(customerId: string): void {
    const { book, returns } = this.#deps
    if (!book.recallCustomer(customerId)) return
    returns.collect()
    void returns.flush(customerId).then(() => this.wake(customerId))
  }

  #tryLines(customer: WaitingCustomer): void {
    customer.isDue = true
    if (customer.entries.some(({ place }) => place.isTried)) return
    for (const entry of customer.takeDue()) this.#send(entry)
  }

  #send(entry: QueuedStrict): void {
    entry.place.isTried = true
    entry.sinceMs = this.#deps.scheduler.monotonicMs()
    entry.isOverdue = false
    this.#deps.send(entry)
  }
}

/** A request with a place in a line. */
type QueuedStrict = PendingStrict & { readonly place: PlaceInLine }

class WaitingCustomer {
  /** In the order of their arrival. */
  readonly entries: QueuedStrict[] = []
  /** The balance at the last refusal. */
  postedNanos: Nanos = 0n
  /** Something has changed since the lines were tried. */
  isDue = false
  isWoken = false
  /** The next try is one of all requests. */
  triesAll = false
  /** What the last grants have left of the balance and the daily cap; undefined if it is not known. */
  roomNanos: Nanos | undefined

  isWaitingIn(lineId: string): boolean {
    return this.entries.some(({ place }) => place.lineId === lineId)
  }

  /** Returns the requests to try now: the first of each line, and those after the first that fit as well. */
  takeDue(): QueuedStrict[] {
    const { triesAll } = this
    let roomNanos = this.roomNanos ?? 0n
    const met = new Set<string>()
    const due = this.entries.filter(({ request: { ask }, place }) => {
      const { lineId } = place
      const isFirst = !met.has(lineId)
      met.add(lineId)
      if (lineId !== BALANCE_LINE) return isFirst || triesAll
      const fits = roomNanos >= ask!.floorNanos
      // Nothing overtakes a request that does not fit.
      roomNanos = fits ? roomNanos - lesser(roomNanos, ask!.wantNanos) : 0n
      return isFirst || fits || triesAll
    })
    this.isDue = false
    this.triesAll = false
    this.roomNanos = undefined
    return due
  }
}

/** The line for the balance and the daily spend cap. */
const BALANCE_LINE = ''

function lineIdsOf({ keyId, keyLimit, memberLimit }: PendingStrict['request']): string[] {
  const lineIds = [BALANCE_LINE]
  if (keyLimit !== null) lineIds.push(keyId)
  if (memberLimit !== null) lineIds.push(memberLimit.personId)
  return lineIds
}

/** Returns the line of the limit that refused a request. */
function lineIdOf({ freeNanos, capLeftNanos, key }: Refused, { request }: PendingStrict): string {
  const { ask, keyId, memberLimit } = request
  const { floorNanos } = ask!
  if (lesser(freeNanos, capLeftNanos) < floorNanos) return BALANCE_LINE
  return key !== null && key.leftNanos < floorNanos ? keyId : memberLimit!.personId
}

function abortedError({ request }: PendingStrict): ApiError {
  const { reason } = request.creditWait!.signal
  // A client that has left sees no error.
  return reason instanceof ApiError ? reason : new ApiError('request_timeout')
}

function lesser(a: Nanos, b: Nanos): Nanos {
  return a < b ? a : b
}
