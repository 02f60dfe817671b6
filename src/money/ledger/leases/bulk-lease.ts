import type { AccountLimits } from '../../../base/domain/caller.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { WindowCounts } from '../../../base/domain/windows.ts'
import type { BulkRequest, LeaseReturn, LeaseUse, LeaseVerdict } from '../ledger-store.ts'

export type BulkGrant = Extract<LeaseVerdict, { kind: 'granted' }>

/**
 * Clocks that NTP corrects may differ by 500 ppm each. Over a minute that is 60 ms, in which the next minute
 * may have begun.
 */
const CLOCK_MARGIN = 0.999

/**
 * `serving`: admits requests. `draining`: admits none, and is about to be handed back. `shrinking`: the return of
 * the unneeded part was sent. `shrunk`: that return is committed. `closing`: the return of the whole lease was sent.
 */
type BulkLeaseState = 'serving' | 'draining' | 'shrinking' | 'shrunk' | 'closing'

/** A bulk lease as its own node counts it: the money and the request slots that are left. */
export class BulkLease {
  readonly leaseId: string
  readonly customerId: string
  readonly limits: AccountLimits
  readonly grantedNanos: Nanos
  /** Whether less was granted than requested. */
  readonly isCutShort: boolean
  /**
   * Whether what it holds may be missed elsewhere while it is idle: there are other nodes, and it has more than an
   * eighth of the customer's free money or requests.
   */
  readonly isMissed: boolean
  /** Not held, not spent and not handed back. */
  leftNanos: Nanos
  /** Held by running requests, or charged and not committed. This part must stay when the rest is handed back. */
  owedNanos: Nanos = 0n
  /** A count, because a Map of request ids would copy each id to the old generation of the heap. */
  #running = 0
  #uncommitted = 0
  /** Set when the lease no longer exists in the database. */
  isForgotten = false
  readonly slots: number
  slotsUsed = 0
  /** The windows of its requests. */
  readonly minuteEndsAtEpochMs: number
  readonly dayEndsAtEpochMs: number
  /** The requests that the customer has made in these windows without this lease. */
  #minuteMadeBefore: number
  #dayMadeBefore: number
  /** What was last reported for the other nodes. */
  #reported: LeaseUse | undefined
  /**
   * End of the minute of the slots, on the monotonic clock. Counted from before the grant was sent, so it is
   * early rather than late.
   */
  readonly untilMs: number
  readonly sinceMs: number
  usedAtMs: number
  #state: BulkLeaseState = 'serving'

  constructor(request: BulkRequest, grant: BulkGrant, sentAtMs: number, nowMs: number) {
    const { leaseId, customerId, limits, wantNanos } = request
    const { heldNanos, slots, windows, databaseNowMs } = grant
    this.leaseId = leaseId
    this.customerId = customerId
    this.limits = limits
    this.grantedNanos = heldNanos
    this.isCutShort = heldNanos < wantNanos
    this.isMissed = grant.nodes > 1 && !isSmall(grant, limits)
    this.leftNanos = heldNanos
    this.slots = slots!
    this.minuteEndsAtEpochMs = windows.minuteEndsAtEpochMs
    this.dayEndsAtEpochMs = windows.dayEndsAtEpochMs
    this.#minuteMadeBefore = windows.minuteUsed
    this.#dayMadeBefore = windows.dayUsed
    this.untilMs = sentAtMs + (windows.minuteEndsAtEpochMs - databaseNowMs) * CLOCK_MARGIN
    this.sinceMs = nowMs
    this.usedAtMs = nowMs
  }

  /** Whether the minute is over or all slots are used. */
  isUsedUp(nowMs: number): boolean {
    return nowMs >= this.untilMs || this.slotsUsed >= this.slots
  }

  /** Uses a slot for a request. */
  count(nowMs: number): void {
    this.usedAtMs = nowMs
    this.slotsUsed++
  }

  /** Holds the worst case of a request that starts to run. */
  hold(nanos: Nanos): void {
    this.leftNanos -= nanos
    this.owedNanos += nanos
    this.#running++
  }

  /**
   * Ends a running request: the unused part of its hold is free again. The charge counts as owed until it is
   * committed.
   */
  charge(heldNanos: Nanos, chargedNanos: Nanos): void {
    const unusedNanos = heldNanos - chargedNanos
    this.leftNanos += unusedNanos
    this.owedNanos -= unusedNanos
    this.#running--
    this.#uncommitted++
  }

  /** Whether charges are not committed yet. */
  get hasUncommitted(): boolean {
    return this.#uncommitted > 0
  }

  /** Removes a charge that is committed, or never will be. */
  settle(chargedNanos: Nanos): void {
    this.owedNanos -= chargedNanos
    this.#uncommitted--
  }

  drain(): void {
    this.#state = 'draining'
  }

  /**
   * Makes a lease that has shrunk before hand back what its requests have left since. Otherwise one long
   * request would keep it.
   */
  drainAgain(): void {
    if (this.#state === 'shrunk' && this.leftNanos > 0n) this.#state = 'draining'
  }

  /** Whether the next `takeReturn`, or one that was sent, frees money or slots. */
  hasReturnPending(): boolean {
    return this.#state !== 'shrunk' || this.#isUnused()
  }

  /**
   * Returns what to hand back to the database now, if anything. A draining lease is handed back in two steps: first
   * the part that nothing needs, then the rest when the last charge is committed.
   */
  takeReturn(): LeaseReturn | undefined {
    const { leaseId, slotsUsed } = this
    if (this.#state === 'closing') return undefined
    if (this.#isUnused()) {
      this.#state = 'closing'
      return { leaseId, keepNanos: null, slotsUsed }
    }
    if (this.#state !== 'draining') return undefined
    this.#state = 'shrinking'
    this.leftNanos = 0n
    return { leaseId, keepNanos: this.owedNanos, slotsUsed }
  }

  /** The database committed the return of the part that nothing needs. */
  confirmShrink(): void {
    if (this.#state === 'shrinking') this.#state = 'shrunk'
  }

  /** The requests that the customer has made. */
  windows(): WindowCounts {
    const { slotsUsed, minuteEndsAtEpochMs, dayEndsAtEpochMs } = this
    const minuteUsed = this.#minuteMadeBefore + slotsUsed
    const dayUsed = this.#dayMadeBefore + slotsUsed
    return { minuteUsed, dayUsed, minuteEndsAtEpochMs, dayEndsAtEpochMs }
  }

  /** Notes what the customer has made, including the requests of this lease. */
  noteWindows({ minuteUsed, dayUsed, minuteEndsAtEpochMs }: WindowCounts): void {
    // The lease admits no request in another minute.
    if (minuteEndsAtEpochMs !== this.minuteEndsAtEpochMs) return
    this.#minuteMadeBefore = minuteUsed - this.slotsUsed
    this.#dayMadeBefore = dayUsed - this.slotsUsed
  }

  /** Returns the use of this lease if it has changed since it was last reported. */
  unreportedUse(): LeaseUse | undefined {
    const { leaseId, slotsUsed, owedNanos } = this
    const isReported = this.#reported?.slotsUsed === slotsUsed && this.#reported.owedNanos === owedNanos
    return isReported ? undefined : { leaseId, slotsUsed, owedNanos }
  }

  noteReported(use: LeaseUse): void {
    this.#reported = use
  }

  #isUnused(): boolean {
    return this.#running === 0 && this.#uncommitted === 0
  }
}

const SMALL_PART = 8

/** Whether a lease has at most an eighth of what the customer had left before it. */
function isSmall({ heldNanos, slots, windows, freeNanos, capLeftNanos }: BulkGrant, limits: AccountLimits): boolean {
  const part = BigInt(SMALL_PART)
  if (heldNanos * part > freeNanos || heldNanos * part > capLeftNanos) return false
  const minuteLeft = limits.requestsPerMinute - windows.minuteCounted + slots!
  const dayLeft = limits.requestsPerDay - windows.dayCounted + slots!
  return slots! * SMALL_PART <= Math.min(minuteLeft, dayLeft)
}
