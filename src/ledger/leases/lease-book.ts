import type { AccountLimits } from '../../domain/caller.ts'
import type { Hold } from '../../domain/handoff.ts'
import type { Nanos } from '../../domain/money.ts'
import type { WindowCounts } from '../../domain/windows.ts'
import type { BulkRequest, LeaseReturn, LeaseVerdict } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'

/**
 * The bulk leases of one node: admits requests against them in memory, measures what each customer needs, and knows what can go back.
 * A plain state machine: it sends nothing and waits for nothing; the ledger does, and tells it what came of it.
 *
 * A lease serves until it is low, idle, recalled or its minute is over. It is never topped up: a new one takes its place, and the old one
 * drains: it gives back what its running and unsettled requests do not need, again when somebody asks for what they left since, and is closed
 * when the last of them is settled.
 */
export interface LeaseBook {
  /** Holds money and a slot for the request if the customer's lease has room; undefined otherwise. */
  reserve(admission: Admission): AdmissionResult | undefined
  /** A request that the database admitted: it counts as demand too. */
  observe(admission: Admission): void
  /** The request ended with this cost. To be called once for a hold. False when the lease is gone. */
  charge(hold: Hold, costNanos: Nanos): boolean
  /** A cost that `charge` took is committed, or never will be. */
  settled(leaseId: string, costNanos: Nanos): void
  /** The lease to ask for now, if this customer is worth one and has none with room to spare. Ask, then tell `granted` or `denied`. */
  wanted(customerId: string, limits: AccountLimits): BulkRequest | undefined
  granted(request: BulkRequest, grant: Extract<LeaseVerdict, { kind: 'granted' }>, sentAtMs: number): void
  denied(request: BulkRequest): void
  /** Lets these leases drain, and those that do already give back what has become free in them since. */
  recall(leaseIds: readonly string[]): void
  /** Lets the leases of one customer drain and admits none of its requests in memory for a while; true if something will come back at once. */
  recallCustomer(customerId: string): boolean
  /** Lets everything drain that is idle or out of date; all of it at the end. Then says what can go back now. */
  collect(all?: boolean): LeaseReturn[]
  /** What `collect` said was done. */
  returned(lease: LeaseReturn): void
  has(leaseId: string): boolean
  /** Whether the customer has any, serving or draining. */
  hasLease(customerId: string): boolean
  /** The database knows this lease no more. */
  forget(leaseId: string): void
  forgetAll(): void
  /** Leases and customers kept in mind. */
  readonly size: number
}

export interface LeaseBookDeps {
  readonly monotonicMs: () => number
  /** False as soon as others may take this node for dead. */
  readonly mayAdmit: () => boolean
  readonly newId: () => string
}

/** A lease is to last about this long. */
const LEASE_SECONDS = 10
/** A customer gets a lease after so many requests, and while they come at such a rate. */
const REQUESTS_MIN = 4
/** Free balance below this, or below so many of the customer's largest holds, is spent by strict leases: the last dollars. */
const FLOOR_NANOS = 1_000_000_000n
const FLOOR_HOLDS = 20n
/** Room for running requests beside what is spent: holds are worst cases, often far above the cost. */
const HELD_FACTOR = 4n
const HOLDS_MIN = 64n
const SLOTS_SPARE = 64
const SLOTS_MAX = 100_000
/** A lease with room left is replaced no sooner than this, so that a customer's balance row is touched about once a second at most. */
const RENEW_MS = 1_000
/** After a refusal the next lease is asked for no sooner than this. */
const DENIED_MS = 1_000
const RECALLED_MS = 10_000
const IDLE_MS = 3_000
const DEMAND_MS = 5_000
/** Two clocks that NTP corrects may differ by 500 ppm each: after a minute that is 60 ms, in which the next minute has begun. */
const CLOCK_MARGIN = 0.999

interface BulkLease {
  readonly leaseId: string
  readonly customerId: string
  readonly limits: AccountLimits
  readonly grantedNanos: Nanos
  /** Neither held nor spent, nor given back. */
  leftNanos: Nanos
  /** Held by running requests plus charged but not settled: what has to stay when the rest goes back. */
  owedNanos: Nanos
  /** Requests, only counted: as keys of a Map their ids would be copied to the old generation of the heap. */
  running: number
  unsettled: number
  readonly slots: number
  slotsUsed: number
  /** As of the grant, all slots counted as used. */
  readonly windows: WindowCounts
  /** The end of the minute of the slots, monotonic. Taken from before the grant was sent: too early rather than too late. */
  readonly untilMs: number
  readonly sinceMs: number
  usedAtMs: number
  /** Draining it admits nothing; shrinking, what nothing needs is on its way back, and shrunk it is there; closing, all of it is on its way. */
  state: 'serving' | 'draining' | 'shrinking' | 'shrunk' | 'closing'
}

interface Account {
  readonly customerId: string
  serving: BulkLease | undefined
  readonly draining: Set<BulkLease>
  asking: BulkRequest | undefined
  /** No lease is asked for before. */
  notBeforeMs: number
  // Demand: `requests` and `spentNanos` since `sinceMs`; the two rates are of the time before that.
  sinceMs: number
  requests: number
  spentNanos: Nanos
  requestsPerMs: number
  nanosPerMs: number
  largestHoldNanos: Nanos
  mostOpenNanos: Nanos
  usedAtMs: number
}

export function createLeaseBook({ monotonicMs, mayAdmit, newId }: LeaseBookDeps): LeaseBook {
  const accounts = new Map<string, Account>()
  const leases = new Map<string, BulkLease>()

  return {
    reserve(admission) {
      const account = accounts.get(admission.customerId)
      if (account === undefined) return undefined
      const nowMs = monotonicMs()
      const lease = account.serving
      if (lease === undefined || nowMs >= lease.untilMs || lease.slotsUsed >= lease.slots || !mayAdmit())
        return undefined
      if (!isSame(lease.limits, admission.limits)) {
        drain(account)
        return undefined
      }
      const holdNanos = admission.ask?.wantNanos
      if (holdNanos !== undefined && holdNanos > lease.leftNanos) return undefined
      account.usedAtMs = nowMs
      account.requests++
      lease.usedAtMs = nowMs
      lease.slotsUsed++
      const windows = windowsOf(lease)
      if (holdNanos === undefined) return { kind: 'counted', windows }
      if (holdNanos > account.largestHoldNanos) account.largestHoldNanos = holdNanos
      lease.leftNanos -= holdNanos
      lease.owedNanos += holdNanos
      if (lease.owedNanos > account.mostOpenNanos) account.mostOpenNanos = lease.owedNanos
      lease.running++
      return { kind: 'granted', hold: { leaseId: lease.leaseId, nanos: holdNanos, isOpen: true }, windows }
    },
    observe({ customerId, ask }) {
      const nowMs = monotonicMs()
      let account = accounts.get(customerId)
      if (account === undefined) {
        account = newAccount(customerId, nowMs)
        accounts.set(customerId, account)
      }
      account.usedAtMs = nowMs
      account.requests++
      if (ask !== null && ask.wantNanos > account.largestHoldNanos) account.largestHoldNanos = ask.wantNanos
    },
    charge(hold, costNanos) {
      const lease = leases.get(hold.leaseId)
      if (lease === undefined) return false
      const unusedNanos = hold.nanos - costNanos
      lease.leftNanos += unusedNanos
      lease.owedNanos -= unusedNanos
      lease.running--
      lease.unsettled++
      const account = accounts.get(lease.customerId)
      if (account !== undefined) account.spentNanos += costNanos
      return true
    },
    settled(leaseId, costNanos) {
      const lease = leases.get(leaseId)
      if (lease === undefined) return
      lease.owedNanos -= costNanos
      lease.unsettled--
    },
    wanted(customerId, limits) {
      const account = accounts.get(customerId)
      if (account === undefined || account.asking !== undefined) return undefined
      const nowMs = monotonicMs()
      if (nowMs < account.notBeforeMs || !isInNeed(account, nowMs)) return undefined
      const { requestsPerMs, nanosPerMs, requests } = demandOf(account, nowMs)
      if (requests < REQUESTS_MIN || requestsPerMs * DEMAND_MS < REQUESTS_MIN) return undefined
      const { largestHoldNanos, mostOpenNanos } = account
      const heldNanos = most(mostOpenNanos * HELD_FACTOR, largestHoldNanos * HOLDS_MIN)
      const request: BulkRequest = {
        leaseId: newId(),
        customerId,
        limits,
        wantNanos: BigInt(Math.ceil(nanosPerMs * LEASE_SECONDS * 1000)) + heldNanos,
        floorNanos: most(FLOOR_NANOS, largestHoldNanos * FLOOR_HOLDS),
        slots: Math.min(Math.ceil(requestsPerMs * LEASE_SECONDS * 1500) + SLOTS_SPARE, SLOTS_MAX),
      }
      account.asking = request
      return request
    },
    granted({ leaseId, customerId, limits }, { heldNanos, slots, windows, databaseNowMs }, sentAtMs) {
      const account = accounts.get(customerId)!
      const nowMs = monotonicMs()
      account.asking = undefined
      account.notBeforeMs = nowMs
      drain(account)
      const lease: BulkLease = {
        leaseId,
        customerId,
        limits,
        grantedNanos: heldNanos,
        leftNanos: heldNanos,
        owedNanos: 0n,
        running: 0,
        unsettled: 0,
        slots: slots!,
        slotsUsed: 0,
        windows,
        untilMs: sentAtMs + (windows.minuteEndsAtEpochMs - databaseNowMs) * CLOCK_MARGIN,
        sinceMs: nowMs,
        usedAtMs: nowMs,
        state: 'serving',
      }
      leases.set(leaseId, lease)
      account.serving = lease
      account.mostOpenNanos = 0n
    },
    denied({ customerId }) {
      const account = accounts.get(customerId)
      if (account === undefined) return
      account.asking = undefined
      account.notBeforeMs = monotonicMs() + DENIED_MS
    },
    recall(leaseIds) {
      for (const leaseId of leaseIds) {
        const lease = leases.get(leaseId)
        const account = accounts.get(lease?.customerId ?? '')
        if (lease === undefined || account === undefined) continue
        if (account.serving === lease) recallAccount(account)
        else drainAgain(lease)
      }
    },
    recallCustomer(customerId) {
      const account = accounts.get(customerId)
      if (account === undefined) return false
      recallAccount(account)
      let isComing = false
      for (const lease of account.draining) {
        drainAgain(lease)
        if (lease.state !== 'shrunk' || isUnused(lease)) isComing = true
      }
      return isComing
    },
    collect(all = false) {
      const nowMs = monotonicMs()
      const returns: LeaseReturn[] = []
      for (const account of accounts.values()) {
        const { serving } = account
        if (
          serving !== undefined &&
          (all || nowMs >= serving.untilMs || nowMs - serving.usedAtMs >= IDLE_MS || !mayAdmit())
        ) {
          drain(account)
        }
        for (const lease of account.draining) {
          const toReturn = returnOf(lease)
          if (toReturn !== undefined) returns.push(toReturn)
        }
        const isIdle = account.draining.size === 0 && account.serving === undefined && account.asking === undefined
        if (isIdle && nowMs - account.usedAtMs > DEMAND_MS * 2) accounts.delete(account.customerId)
      }
      return returns
    },
    returned({ leaseId, keepNanos }) {
      if (keepNanos === null) forget(leaseId)
      else {
        const lease = leases.get(leaseId)
        if (lease?.state === 'shrinking') lease.state = 'shrunk'
      }
    },
    has: leaseId => leases.has(leaseId),
    hasLease(customerId) {
      const account = accounts.get(customerId)
      return account !== undefined && (account.serving !== undefined || account.draining.size > 0)
    },
    forget,
    forgetAll() {
      leases.clear()
      for (const account of accounts.values()) {
        account.serving = undefined
        account.asking = undefined
        account.draining.clear()
      }
    },
    get size() {
      return accounts.size
    },
  }

  function drain(account: Account): void {
    const { serving } = account
    if (serving === undefined) return
    serving.state = 'draining'
    account.draining.add(serving)
    account.serving = undefined
  }

  function recallAccount(account: Account): void {
    drain(account)
    account.notBeforeMs = monotonicMs() + RECALLED_MS
  }

  function forget(leaseId: string): void {
    const lease = leases.get(leaseId)
    if (lease === undefined) return
    leases.delete(leaseId)
    const account = accounts.get(lease.customerId)
    account?.draining.delete(lease)
    if (account?.serving === lease) account.serving = undefined
  }
}

function newAccount(customerId: string, nowMs: number): Account {
  return {
    customerId,
    serving: undefined,
    draining: new Set(),
    asking: undefined,
    notBeforeMs: nowMs,
    sinceMs: nowMs,
    requests: 0,
    spentNanos: 0n,
    requestsPerMs: 0,
    nanosPerMs: 0,
    largestHoldNanos: 0n,
    mostOpenNanos: 0n,
    usedAtMs: nowMs,
  }
}

/** Of many requests on a lease one may run for long: it is not to keep what the others held from whoever asks for it. */
function drainAgain(lease: BulkLease): void {
  if (lease.state === 'shrunk' && lease.leftNanos > 0n) lease.state = 'draining'
}

/** A draining lease gives back at once what nothing needs, and the rest when nothing needs it any more: two hand-backs, unless it is asked for more. */
function returnOf(lease: BulkLease): LeaseReturn | undefined {
  const { leaseId, slotsUsed } = lease
  if (lease.state === 'closing') return undefined
  if (isUnused(lease)) {
    lease.state = 'closing'
    return { leaseId, keepNanos: null, slotsUsed }
  }
  if (lease.state !== 'draining') return undefined
  lease.state = 'shrinking'
  lease.leftNanos = 0n
  return { leaseId, keepNanos: lease.owedNanos, slotsUsed }
}

/** No request runs on it, or waits to be settled. */
function isUnused({ running, unsettled }: BulkLease): boolean {
  return running === 0 && unsettled === 0
}

function isInNeed({ serving: lease, largestHoldNanos }: Account, nowMs: number): boolean {
  if (lease === undefined || nowMs >= lease.untilMs || lease.slotsUsed >= lease.slots) return true
  // Used up before its time, as the first lease of a sudden load is. One that never had room for many holds is no better the next time.
  const isSpent = lease.leftNanos < largestHoldNanos && lease.grantedNanos >= largestHoldNanos * HOLDS_MIN
  if (isSpent) return true
  const isLow = lease.leftNanos * 4n < lease.grantedNanos || (lease.slots - lease.slotsUsed) * 4 < lease.slots
  return isLow && nowMs - lease.sinceMs >= RENEW_MS
}

/** What the customer used per millisecond lately: the larger of the running measurement and half of the one before. */
function demandOf(account: Account, nowMs: number) {
  const elapsedMs = Math.max(nowMs - account.sinceMs, 250)
  const { requests } = account
  const demand = {
    requestsPerMs: Math.max(requests / elapsedMs, account.requestsPerMs / 2),
    nanosPerMs: Math.max(Number(account.spentNanos) / elapsedMs, account.nanosPerMs / 2),
    requests,
  }
  if (elapsedMs > DEMAND_MS) {
    account.sinceMs = nowMs
    account.requests = 0
    account.spentNanos = 0n
    account.requestsPerMs = demand.requestsPerMs
    account.nanosPerMs = demand.nanosPerMs
  }
  return demand
}

/** The unused slots are this node's alone, so they count as free in what its callers are told. */
function windowsOf({ windows, slots, slotsUsed }: BulkLease): WindowCounts {
  const unused = slots - slotsUsed
  return {
    minuteUsed: windows.minuteUsed - unused,
    dayUsed: windows.dayUsed - unused,
    minuteEndsAtEpochMs: windows.minuteEndsAtEpochMs,
    dayEndsAtEpochMs: windows.dayEndsAtEpochMs,
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

function most(a: Nanos, b: Nanos): Nanos {
  return a > b ? a : b
}
