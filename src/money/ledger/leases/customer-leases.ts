import type { AccountLimits } from '../../../base/domain/caller.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { BulkRequest } from '../ledger-store.ts'
import type { BulkLease } from './bulk-lease.ts'

/** The bulk leases of one customer on this node, and the demand that decides the size of the next one. */
export class CustomerLeases {
  readonly customerId: string
  serving: BulkLease | undefined
  readonly draining: Set<BulkLease> = new Set()
  /** The pending request for a lease. */
  #asked: BulkRequest | undefined
  #askNoSoonerThanMs: number
  #deniedMs = DENIED_MS
  #usedAtMs: number
  #isKnown = false
  /** When the windows were last noted. */
  windowsAtMs: number = Number.NEGATIVE_INFINITY
  /** The running measurement since `#sinceMs`. The two rates are from the measurement before it. */
  #sinceMs: number
  #requests = 0
  #spentNanos: Nanos = 0n
  #requestsPerMs = 0
  #nanosPerMs = 0
  #largestHoldNanos: Nanos = 0n
  #largestOwedNanos: Nanos = 0n

  constructor(customerId: string, nowMs: number) {
    this.customerId = customerId
    this.#askNoSoonerThanMs = nowMs
    this.#usedAtMs = nowMs
    this.#sinceMs = nowMs
  }

  noteRequest(holdNanos: Nanos | undefined, nowMs: number): void {
    this.#usedAtMs = nowMs
    this.#isKnown = this.#requests > 0 || this.#requestsPerMs > 0
    this.#requests++
    if (holdNanos !== undefined && holdNanos > this.#largestHoldNanos) this.#largestHoldNanos = holdNanos
  }

  noteOwed(nanos: Nanos): void {
    if (nanos > this.#largestOwedNanos) this.#largestOwedNanos = nanos
  }

  noteSpent(nanos: Nanos): void {
    this.#spentNanos += nanos
  }

  /** Whether the customer has no lease, no pending grant, and no recent request. */
  isForgettable(nowMs: number): boolean {
    const isIdle = this.draining.size === 0 && this.serving === undefined && this.#asked === undefined
    return isIdle && nowMs - this.#usedAtMs > KNOWN_MS
  }

  /** Whether a lease has charges that are not committed yet. */
  hasUncommitted(): boolean {
    if (this.serving?.hasUncommitted) return true
    for (const lease of this.draining) if (lease.hasUncommitted) return true
    return false
  }

  drain(): void {
    const { serving } = this
    if (serving === undefined) return
    serving.drain()
    this.draining.add(serving)
    this.serving = undefined
  }

  /**
   * Drains the serving lease because other requests need its money. No new lease is asked for within the next
   * ten seconds.
   */
  recall(nowMs: number): void {
    this.drain()
    this.#askNoSoonerThanMs = nowMs + RECALLED_MS
  }

  drop(lease: BulkLease): void {
    this.draining.delete(lease)
    if (this.serving === lease) this.serving = undefined
  }

  dropAll(): void {
    this.serving = undefined
    this.#asked = undefined
    this.draining.clear()
  }

  /**
   * Returns the lease to request now. Undefined for the first request, when the customer has enough room, or when a
   * lease was refused or recalled recently.
   */
  ask(limits: AccountLimits, newId: () => string, nowMs: number): BulkRequest | undefined {
    if (!this.mayAsk(nowMs)) return undefined
    const { requestsPerMs, nanosPerMs } = this.#recentDemand(nowMs)
    const heldNanos = larger(this.#largestOwedNanos * HELD_FACTOR, this.#largestHoldNanos * HOLDS_MIN)
    this.#asked = {
      leaseId: newId(),
      customerId: this.customerId,
      limits,
      wantNanos: BigInt(Math.ceil(nanosPerMs * LEASE_SECONDS * 1000)) + heldNanos,
      // Requests that cost nothing need no balance.
      floorNanos: this.#largestHoldNanos === 0n ? 0n : larger(FLOOR_NANOS, this.#largestHoldNanos * FLOOR_HOLDS),
      slots: Math.min(Math.ceil(requestsPerMs * LEASE_SECONDS * 1500) + SLOTS_SPARE, SLOTS_MAX),
    }
    return this.#asked
  }

  /** Replaces the serving lease with the granted one. */
  serve(lease: BulkLease, nowMs: number): void {
    this.#asked = undefined
    this.#askNoSoonerThanMs = nowMs
    this.#deniedMs = DENIED_MS
    this.drain()
    this.serving = lease
    this.#largestOwedNanos = 0n
  }

  denyAsked(nowMs: number): void {
    this.#asked = undefined
    this.#askNoSoonerThanMs = nowMs + this.#deniedMs
    this.#deniedMs = Math.min(this.#deniedMs * 2, DENIED_MAX_MS)
  }

  /** Whether `ask` returns a lease to request. */
  mayAsk(nowMs: number): boolean {
    // The first request is admitted by a strict lease: many customers send no second one for minutes.
    return (
      this.#isKnown && this.#asked === undefined && nowMs >= this.#askNoSoonerThanMs && this.#isServingTooLittle(nowMs)
    )
  }

  #isServingTooLittle(nowMs: number): boolean {
    const lease = this.serving
    if (lease === undefined || lease.isUsedUp(nowMs)) return true
    const { leftNanos, grantedNanos, isCutShort, slots, slotsUsed, sinceMs } = lease
    // A sudden load spends its first lease early: replace it at once. If there was no room for a larger lease, there
    // would be none for the next one either.
    if (leftNanos < this.#largestHoldNanos && !isCutShort) return true
    const isLow = leftNanos * 4n < grantedNanos || (slots - slotsUsed) * 4 < slots
    return isLow && nowMs - sinceMs >= RENEW_MS
  }

  /**
   * Returns what the customer recently used per millisecond: the larger of the running measurement and half of the
   * previous one.
   */
  #recentDemand(nowMs: number) {
    const elapsedMs = Math.max(nowMs - this.#sinceMs, 1_000)
    const requestsPerMs = Math.max(this.#requests / elapsedMs, this.#requestsPerMs / 2)
    const nanosPerMs = Math.max(Number(this.#spentNanos) / elapsedMs, this.#nanosPerMs / 2)
    if (elapsedMs > DEMAND_MS) {
      this.#sinceMs = nowMs
      this.#requests = 0
      this.#spentNanos = 0n
      this.#requestsPerMs = requestsPerMs
      this.#nanosPerMs = nanosPerMs
    }
    return { requestsPerMs, nanosPerMs }
  }
}

/** How long the money and the requests of a lease should last. */
const LEASE_SECONDS = 10

function larger(a: Nanos, b: Nanos): Nanos {
  return a > b ? a : b
}

/** A free balance below this, or below this many of the customer's largest holds, is left to strict leases. */
const FLOOR_NANOS = 1_000_000_000n
const FLOOR_HOLDS = 20n
/**
 * A lease has room for running requests, on top of what is spent: this many times the largest sum owed so far. Holds
 * are worst cases, often far above the cost.
 */
const HELD_FACTOR = 4n
/** The room of a first lease, when nothing is known about the customer but its first request. */
const HOLDS_MIN = 16n
const SLOTS_SPARE = 32
const SLOTS_MAX = 100_000
/**
 * A lease with room left is replaced no sooner than this, so a customer's balance row is updated about once a
 * second at most.
 */
const RENEW_MS = 1_000
/** After a refused grant the node waits this long before it asks again, and twice as long after each further one. */
const DENIED_MS = 1_000
const DENIED_MAX_MS = 60_000
const RECALLED_MS = 10_000
const DEMAND_MS = 5_000
/** A customer is forgotten this long after the last request. The next request is then the first again. */
export const KNOWN_MS = 120_000
