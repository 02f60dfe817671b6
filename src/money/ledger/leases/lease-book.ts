import type { AccountLimits } from '../../../base/domain/caller.ts'
import type { Hold } from '../../../base/domain/handoff.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import { valueAt } from '../../../base/runtime/collections.ts'
import type { BulkRequest, LeaseReturn } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'
import { type BulkGrant, BulkLease } from './bulk-lease.ts'
import { CustomerLeases } from './customer-leases.ts'
import { RequestsMade } from './requests-made.ts'

export interface LeaseBookDeps {
  readonly monotonicMs: () => number
  /** False as soon as other nodes may declare this one dead. */
  readonly mayAdmit: () => boolean
  readonly newId: () => string
  /** Called when a request was admitted and its customer should get another lease. */
  readonly onLow: (admission: Admission) => void
}

/** An idle lease is kept until its minute is over, unless it may be missed elsewhere: then this long. */
const MISSED_IDLE_MS = 3_000

/**
 * The bulk leases of one node: admits requests from them in memory, measures what each customer needs, and
 * decides what can be handed back. A plain state machine: the ledger sends what the book asks for and reports
 * the results.
 *
 * A lease serves until it is low, recalled or missed elsewhere, or its minute is over. It is never topped up: a new
 * lease replaces it, and the old one drains. A draining lease first hands back what its running and uncommitted
 * requests do not need, hands back more when a recall asks for it, and is closed when the last of its charges is
 * committed.
 */
export class LeaseBook {
  readonly #monotonicMs: () => number
  readonly #mayAdmit: () => boolean
  readonly #newId: () => string
  readonly #onLow: (admission: Admission) => void
  readonly #customers = new Map<string, CustomerLeases>()
  readonly #leases = new Map<string, BulkLease>()
  readonly requestsMade: RequestsMade

  constructor({ monotonicMs, mayAdmit, newId, onLow }: LeaseBookDeps) {
    this.#monotonicMs = monotonicMs
    this.#mayAdmit = mayAdmit
    this.#newId = newId
    this.#onLow = onLow
    this.requestsMade = new RequestsMade(this.#customers, this.#leases, monotonicMs)
  }

  /** Customers that have leases or recent requests. */
  get size(): number {
    return this.#customers.size
  }

  has(leaseId: string): boolean {
    return this.#leases.has(leaseId)
  }

  leases(): Iterable<BulkLease> {
    return this.#leases.values()
  }

  leaseIds(): string[] {
    return Array.from(this.#leases.keys())
  }

  /** Whether the customer has a lease, serving or draining. */
  hasLease(customerId: string): boolean {
    const customer = this.#customers.get(customerId)
    return customer !== undefined && (customer.serving !== undefined || customer.draining.size > 0)
  }

  /** What the serving lease of the customer has left; 0 without one. */
  leftNanos(customerId: string): Nanos {
    return this.#customers.get(customerId)?.serving?.leftNanos ?? 0n
  }

  // ---------------------------------------------------------------- requests

  /** Counts a new request towards the demand for a lease, then does the same as `reserve`. */
  admit(admission: Admission): AdmissionResult | undefined {
    const nowMs = this.#monotonicMs()
    let customer = this.#customers.get(admission.customerId)
    if (customer === undefined) {
      customer = new CustomerLeases(admission.customerId, nowMs)
      this.#customers.set(admission.customerId, customer)
    }
    customer.noteRequest(admission.ask?.wantNanos, nowMs)
    const result = this.#reserveFrom(customer, admission, nowMs)
    if (result !== undefined && customer.mayAsk(nowMs)) this.#onLow(admission)
    return result
  }

  /** Holds money and a slot for the request. Undefined when the customer has no serving lease with room. */
  reserve(admission: Admission): AdmissionResult | undefined {
    const customer = this.#customers.get(admission.customerId)
    return customer === undefined ? undefined : this.#reserveFrom(customer, admission, this.#monotonicMs())
  }

  #reserveFrom(customer: CustomerLeases, { limits, ask }: Admission, nowMs: number): AdmissionResult | undefined {
    const lease = customer.serving
    if (lease === undefined || lease.isUsedUp(nowMs) || !this.#mayAdmit()) return undefined
    if (!isSame(lease.limits, limits)) {
      customer.drain()
      return undefined
    }
    const holdNanos = ask?.wantNanos
    if (holdNanos !== undefined && holdNanos > lease.leftNanos) return undefined
    lease.count(nowMs)
    const windows = lease.windows()
    if (holdNanos === undefined) return { kind: 'counted', windows }
    lease.hold(holdNanos)
    customer.noteOwed(lease.owedNanos)
    return { kind: 'granted', hold: new BulkHold(lease, customer, holdNanos), windows }
  }

  /**
   * Ends a request at this cost. Call it once per hold. Returns the lease that must be informed when the charge is
   * committed, or never will be. Undefined when there is none: a strict lease, or a bulk lease that is gone.
   */
  charge(hold: Hold, chargedNanos: Nanos): BulkLease | undefined {
    if (!(hold instanceof BulkHold) || hold.lease.isForgotten) return undefined
    hold.lease.charge(hold.nanos, chargedNanos)
    hold.customer.noteSpent(chargedNanos)
    return hold.lease
  }

  /** Whether charges that `charge` accepted for this customer are not committed yet. */
  hasUncommitted(customerId: string): boolean {
    return this.#customers.get(customerId)?.hasUncommitted() ?? false
  }

  // ---------------------------------------------------------------- new leases

  /**
   * Returns the lease to request now, if the customer needs one. The caller must report the result to `granted` or
   * `denied`.
   */
  wanted(customerId: string, limits: AccountLimits): BulkRequest | undefined {
    if (!this.#mayAdmit()) return undefined
    return this.#customers.get(customerId)?.ask(limits, this.#newId, this.#monotonicMs())
  }

  granted(request: BulkRequest, grant: BulkGrant, sentAtMs: number): void {
    const nowMs = this.#monotonicMs()
    const lease = new BulkLease(request, grant, sentAtMs, nowMs)
    valueAt(this.#customers, lease.customerId).serve(lease, nowMs)
    this.#leases.set(lease.leaseId, lease)
    this.requestsMade.note(lease.customerId, grant.windows)
  }

  denied({ customerId }: BulkRequest): void {
    this.#customers.get(customerId)?.denyAsked(this.#monotonicMs())
  }

  /** What running requests and uncommitted charges need of these leases. */
  owedNanos(leaseIds: readonly string[]): Nanos {
    let owedNanos = 0n
    for (const leaseId of leaseIds) owedNanos += this.#leases.get(leaseId)?.owedNanos ?? 0n
    return owedNanos
  }

  // ---------------------------------------------------------------- returns

  /** Drains these leases. A lease that drains already hands back what has become free in it since. */
  recall(leaseIds: readonly string[]): void {
    for (const leaseId of leaseIds) {
      const lease = this.#leases.get(leaseId)
      const customer = this.#customers.get(lease?.customerId ?? '')
      if (lease === undefined || customer === undefined) continue
      if (customer.serving === lease) customer.recall(this.#monotonicMs())
      else lease.drainAgain()
    }
  }

  /**
   * Drains all leases of one customer and admits none of its requests in memory for ten seconds. Returns
   * whether the next `collect`, or a return that was sent, frees something.
   */
  recallCustomer(customerId: string): boolean {
    const customer = this.#customers.get(customerId)
    if (customer === undefined) return false
    customer.recall(this.#monotonicMs())
    for (const lease of customer.draining) lease.drainAgain()
    return this.hasReturnPending(customerId)
  }

  /** Whether the next `collect`, or a return that was sent, frees something of draining leases of this customer. */
  hasReturnPending(customerId: string): boolean {
    for (const lease of this.#customers.get(customerId)?.draining ?? []) if (lease.hasReturnPending()) return true
    return false
  }

  /**
   * Drains every lease that is missed elsewhere or out of date, and with `all` every lease. Returns what to hand back
   * now. Forgets customers that have no lease and no recent request.
   */
  collect(all = false): LeaseReturn[] {
    const nowMs = this.#monotonicMs()
    const returns: LeaseReturn[] = []
    for (const customer of this.#customers.values()) {
      const { serving } = customer
      if (serving !== undefined) {
        const isIdle = serving.isMissed && nowMs - serving.usedAtMs >= MISSED_IDLE_MS
        const isDone = nowMs >= serving.untilMs || isIdle || !this.#mayAdmit()
        if (all || isDone) customer.drain()
      }
      for (const lease of customer.draining) {
        const toReturn = lease.takeReturn()
        if (toReturn !== undefined) returns.push(toReturn)
      }
      if (customer.isForgettable(nowMs)) this.#customers.delete(customer.customerId)
    }
    this.requestsMade.forgetClosed()
    return returns
  }

  /** Notes that the database committed a return that `collect` asked for. */
  returned({ leaseId, keepNanos }: LeaseReturn): void {
    if (keepNanos === null) this.forget(leaseId)
    else this.#leases.get(leaseId)?.confirmShrink()
  }

  /** Forgets a lease that no longer exists in the database. */
  forget(leaseId: string): void {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined) return
    this.#leases.delete(leaseId)
    lease.isForgotten = true
    this.requestsMade.noteClosed(lease)
    this.#customers.get(lease.customerId)?.drop(lease)
  }

  forgetAll(): void {
    for (const lease of this.#leases.values()) lease.isForgotten = true
    this.#leases.clear()
    for (const customer of this.#customers.values()) customer.dropAll()
  }
}

function isSame(a: AccountLimits, b: AccountLimits): boolean {
  return (
    a === b ||
    (a.requestsPerMinute === b.requestsPerMinute &&
      a.requestsPerDay === b.requestsPerDay &&
      a.dailySpendCapNanos === b.dailySpendCapNanos)
  )
}

/**
 * The hold of a request that a bulk lease admitted. It refers to its lease and its customer, because a look-up by id
 * costs half a microsecond when thousands of customers are active.
 */
class BulkHold implements Hold {
  readonly leaseId: string
  readonly nanos: Nanos
  readonly isOpen = true
  readonly lease: BulkLease
  readonly customer: CustomerLeases

  constructor(lease: BulkLease, customer: CustomerLeases, nanos: Nanos) {
    this.leaseId = lease.leaseId
    this.nanos = nanos
    this.lease = lease
    this.customer = customer
  }
}
