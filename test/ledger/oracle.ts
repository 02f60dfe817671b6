import type { KeyLimit } from '../../src/base/domain/caller.ts'
import type { Admission, AdmissionResult, RefusalCode } from '../../src/money/ledger/leases/admission.ts'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'

/**
 * What the ledger should do for one customer, implemented again in the simplest way: without SQL and batches,
 * one command after the other. The test checks that some order of the commands explains the results of
 * concurrent ones.
 */
export interface Account {
  open: boolean
  signupCredited: boolean
  posted: bigint
  readonly credits: Map<string, bigint>
  readonly leases: Map<string, Lease>
  readonly usage: Map<string, UsageRow>
  minute: number
  minuteRequests: number
  day: number
  dayRequests: number
  daySpent: bigint
  /** The highest cap of the day. Null before its first admission. */
  dayCap: bigint | null
  /** The other days: earlier ones, and days that were charged before their first admission. */
  readonly caps: Map<number, bigint>
  /** Charges of the key with a spend limit, by the first day of the window. */
  readonly keySpent: Map<number, bigint>
}

interface Lease {
  readonly granted: bigint
  readonly capDay: number
  readonly node: number
  readonly modelId: string
  /** Null for admissions without a spend limit. */
  readonly keyWindow: number | null
}

export interface UsageRow {
  readonly outcome: string
  readonly hold: bigint
  readonly cost: bigint
  readonly share: bigint
  readonly writeoff: bigint
  readonly refunded: bigint
  /** The hoster's part of the charge. */
  readonly refundedShare: bigint
  readonly keyWindow: number | null
  /** Null when the charge counts for no day. */
  readonly capDay: number | null
}

export type Command =
  | { readonly kind: 'open'; readonly credit: bigint }
  | { readonly kind: 'credit'; readonly ref: string; readonly amount: bigint }
  | { readonly kind: 'admit'; readonly node: number; readonly admission: Admission; readonly nowMs: number }
  | {
      readonly kind: 'settle'
      readonly node: number
      readonly settlement: Settlement
      readonly keyLimit: KeyLimit | null
    }
  | { readonly kind: 'release'; readonly requestId: string }
  | { readonly kind: 'refund'; readonly requestId: string; readonly amount: bigint | null }
  | { readonly kind: 'nodeDies'; readonly node: number }

/** What a caller sees of a command. */
export type Seen = string | AdmissionResult

export function newAccount(): Account {
  return {
    open: false,
    signupCredited: false,
    posted: 0n,
    credits: new Map(),
    leases: new Map(),
    usage: new Map(),
    minute: -1,
    minuteRequests: 0,
    day: -1,
    dayRequests: 0,
    daySpent: 0n,
    dayCap: null,
    caps: new Map(),
    keySpent: new Map(),
  }
}

/** All possible outcomes of a command, usually one. Does not change `account`. */
export function outcomes(before: Account, command: Command): { account: Account; seen: Seen }[] {
  const account = copyOf(before)
  const expected = { account, seen: carryOut(account, command) }
  // A node that remembers a used-up window may refuse a repeated admission instead of finding its lease.
  if (command.kind === 'admit' && before.leases.has(command.admission.requestId)) {
    const without = copyOf(before)
    without.leases.delete(command.admission.requestId)
    const seen = carryOut(without, command)
    if (isRateRefusal(seen)) return [expected, { account: copyOf(before), seen }]
  }
  return [expected]
}

/**
 * The retry of an admission that is refused for money: it was counted and waits for money to come back. An
 * admission with a lower floor may first ask for all or nothing. Undefined for any other command.
 */
export function refusedOnce(before: Account, command: Command): { account: Account; command: Command } | undefined {
  if (command.kind !== 'admit' || command.admission.countedUntilEpochMs !== undefined) return undefined
  const account = copyOf(before)
  const { ask } = command.admission
  const wholly = { ...command.admission, ask: ask && { ...ask, floorNanos: ask.wantNanos } }
  const seen = carryOut(account, { ...command, admission: wholly })
  if (typeof seen !== 'object' || seen.kind !== 'refused' || isRateRefusal(seen)) return undefined
  const admission = { ...command.admission, countedUntilEpochMs: seen.windows.minuteEndsAtEpochMs }
  return { account, command: { ...command, admission } }
}

export function isRateRefusal(seen: Seen): boolean {
  return (
    typeof seen === 'object' &&
    seen.kind === 'refused' &&
    (seen.code === 'rate_limit_exceeded' || seen.code === 'daily_limit_exceeded')
  )
}

export function leased(account: Account): bigint {
  return sum([...account.leases.values()].map(lease => lease.granted))
}

export function dayLeased(account: Account): bigint {
  return sum([...account.leases.values()].filter(lease => lease.capDay === account.day).map(lease => lease.granted))
}

export function keyLeased(account: Account, window: number): bigint {
  return sum([...account.leases.values()].filter(lease => lease.keyWindow === window).map(lease => lease.granted))
}

function carryOut(account: Account, command: Command): Seen {
  switch (command.kind) {
    case 'open': {
      account.open = true
      if (account.signupCredited || command.credit === 0n) return 'not credited'
      account.signupCredited = true
      account.posted += command.credit
      return 'credited'
    }
    case 'credit': {
      if (!account.open) return 'no_account'
      const earlier = account.credits.get(command.ref)
      if (earlier !== undefined) return earlier === command.amount ? `duplicate ${account.posted}` : 'ref_taken'
      account.credits.set(command.ref, command.amount)
      account.posted += command.amount
      return `granted ${account.posted}`
    }
    case 'admit':
      return account.open ? admit(account, command) : 'no account'
    case 'settle':
      return account.open ? settle(account, command) : 'no account'
    case 'release':
      account.leases.delete(command.requestId)
      return 'done'
    case 'refund':
      return refund(account, command)
    case 'nodeDies':
      for (const [requestId, lease] of account.leases) {
        if (lease.node !== command.node) continue
        account.leases.delete(requestId)
        if (account.usage.has(requestId)) continue
        const nothing = { cost: 0n, share: 0n, writeoff: 0n, refunded: 0n, refundedShare: 0n }
        account.usage.set(requestId, {
          outcome: 'node_died',
          hold: lease.granted,
          keyWindow: lease.keyWindow,
          capDay: lease.capDay,
          ...nothing,
        })
      }
      return 'done'
  }
}

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

function admit(account: Account, { admission, node, nowMs }: Extract<Command, { kind: 'admit' }>): AdmissionResult {
  const { limits, keyLimit, ask, requestId, modelId } = admission
  const thisMinute = Math.floor(nowMs / MINUTE_MS)
  // The windows follow a clock that steps back only when it does by more than two minutes.
  const minute = account.minute >= thisMinute && account.minute <= thisMinute + 2 ? account.minute : thisMinute
  const day = Math.max(Math.floor(nowMs / DAY_MS), account.day)
  if (minute !== account.minute) {
    account.minute = minute
    account.minuteRequests = 0
  }
  if (day > account.day) {
    if (account.dayCap !== null) account.caps.set(account.day, account.dayCap)
    account.day = day
    account.dayRequests = 0
    // Zero, except for late charges.
    account.daySpent = usedOfDay(account, day)
    account.dayCap = account.caps.get(day) ?? null
  }
  account.dayCap = most(account.dayCap ?? 0n, limits.dailySpendCapNanos)
  const windows = () => ({
    minuteUsed: account.minuteRequests,
    dayUsed: account.dayRequests,
    minuteEndsAtEpochMs: (minute + 1) * MINUTE_MS,
    dayEndsAtEpochMs: (day + 1) * DAY_MS,
  })
  const freeNanos = account.posted - leased(account)
  const capLeft = limits.dailySpendCapNanos - account.daySpent - dayLeased(account)
  const capLeftNanos = capLeft < 0n ? 0n : capLeft
  const keyWindow = keyLimit === null ? null : firstDayOf(keyLimit, day)
  const keySpent = keyWindow === null ? 0n : (account.keySpent.get(keyWindow) ?? 0n)
  const keyLeft = keyLimit === null ? null : most(keyLimit.limitNanos - keySpent - keyLeased(account, keyWindow!), 0n)
  const refuse = (code: RefusalCode): AdmissionResult => ({
    kind: 'refused',
    code,
    postedNanos: account.posted,
    freeNanos,
    capLeftNanos,
    key:
      keyLimit === null
        ? null
        : { spentNanos: keySpent, leftNanos: keyLeft!, endsAtEpochMs: endOf(keyLimit, keyWindow!) },
    member: null,
    windows: windows(),
  })

  const existing = account.leases.get(requestId)
  if (existing !== undefined)
    return {
      kind: 'granted',
      hold: { leaseId: requestId, nanos: existing.granted, isOpen: true },
      windows: windows(),
    }
  if (admission.countedUntilEpochMs !== (minute + 1) * MINUTE_MS) {
    if (account.minuteRequests >= limits.requestsPerMinute) return refuse('rate_limit_exceeded')
    if (account.dayRequests >= limits.requestsPerDay) return refuse('daily_limit_exceeded')
    account.minuteRequests++
    account.dayRequests++
  }
  if (ask === null) return { kind: 'counted', windows: windows() }
  if (account.posted < ask.floorNanos) return refuse('insufficient_credits')
  if (limits.dailySpendCapNanos - account.daySpent < ask.floorNanos) return refuse('daily_spend_cap_reached')
  if (keyLimit !== null && keyLimit.limitNanos - keySpent < ask.floorNanos) return refuse('key_spend_limit_reached')
  const budget = least(freeNanos, capLeftNanos, ...(keyLeft === null ? [] : [keyLeft]))
  if (budget < ask.floorNanos) return refuse('in_flight_budget')
  const heldNanos = least(ask.wantNanos, budget)
  account.leases.set(requestId, { granted: heldNanos, capDay: day, node, modelId, keyWindow })
  return { kind: 'granted', hold: { leaseId: requestId, nanos: heldNanos, isOpen: true }, windows: windows() }
}

/** In days since the epoch, which was a Thursday. */
function firstDayOf({ reset }: KeyLimit, day: number): number {
  if (reset === 'daily') return day
  if (reset === 'weekly') return day - ((day + 3) % 7)
  if (reset === 'monthly') return day - (new Date(day * DAY_MS).getUTCDate() - 1)
  return -Infinity
}

function endOf({ reset }: KeyLimit, firstDay: number): number | null {
  if (reset === 'none') return null
  let day = firstDay + 1
  while (firstDayOf({ reset, limitNanos: 0n }, day) === firstDay) day++
  return day * DAY_MS
}

function settle(account: Account, { settlement, keyLimit }: Extract<Command, { kind: 'settle' }>): Seen {
  const { requestId, costNanos } = settlement
  const lease = account.leases.get(requestId)
  account.leases.delete(requestId)
  // The settlement replaces a presumed death.
  const earlier = account.usage.get(requestId)
  if (earlier !== undefined && !(earlier.outcome === 'node_died' && lease === undefined)) return 'done'
  const hold = lease?.granted ?? settlement.holdNanos
  let cost = least(costNanos, hold)
  let keyWindow = lease?.keyWindow ?? null
  let capDay = lease?.capDay ?? null
  if (lease === undefined && cost > 0n) {
    const room = (window: number) =>
      keyLimit!.limitNanos - (account.keySpent.get(window) ?? 0n) - keyLeased(account, window)
    const lateWindow = earlier?.keyWindow ?? null
    const lateDay = earlier?.capDay ?? Math.floor(settlement.startedAtEpochMs / DAY_MS)
    const cap = (lateDay === account.day ? undefined : account.caps.get(lateDay)) ?? account.dayCap
    if (
      cost > account.posted - leased(account) ||
      (cap !== null && cost > cap - usedOfDay(account, lateDay)) ||
      (lateWindow !== null && cost > room(lateWindow))
    ) {
      cost = 0n
    } else {
      keyWindow = lateWindow
      capDay = lateDay
      if (cap !== null) account.caps.set(lateDay, cap)
    }
  }
  if (keyWindow !== null && cost > 0n) account.keySpent.set(keyWindow, (account.keySpent.get(keyWindow) ?? 0n) + cost)
  account.posted -= cost
  if (capDay === account.day) account.daySpent += cost
  const share = cost === costNanos ? settlement.hosterShareNanos : (settlement.hosterShareNanos * cost) / costNanos
  const writeoff = settlement.writeoffNanos + costNanos - cost
  account.usage.set(requestId, {
    ...{ outcome: settlement.outcome, hold, cost, share, writeoff, keyWindow, capDay },
    ...{ refunded: 0n, refundedShare: 0n },
  })
  return 'done'
}

/** What requests admitted on that day were charged and hold. */
function usedOfDay({ usage, leases }: Account, day: number): bigint {
  const ofDay = <Row extends { capDay: number | null }>(rows: Iterable<Row>) =>
    [...rows].filter(({ capDay }) => capDay === day)
  return sum(ofDay(usage.values()).map(row => row.cost)) + sum(ofDay(leases.values()).map(lease => lease.granted))
}

/** Raises the balance only. The spend of the day does not change. */
function refund(account: Account, { requestId, amount }: Extract<Command, { kind: 'refund' }>): Seen {
  const row = account.usage.get(requestId)
  if (row === undefined) return 'no_request'
  if (row.cost === 0n) return 'free'
  const asked = amount ?? row.cost
  if (row.refunded > 0n) return row.refunded === asked ? `duplicate ${row.refunded}` : `refunded_before ${row.refunded}`
  if (asked > row.cost) return 'above_charge'
  account.posted += asked
  account.usage.set(requestId, { ...row, refunded: asked, refundedShare: (row.share * asked) / row.cost })
  return `refunded ${asked}`
}

function copyOf(account: Account): Account {
  return {
    ...account,
    credits: new Map(account.credits),
    leases: new Map(account.leases),
    usage: new Map(account.usage),
    caps: new Map(account.caps),
    keySpent: new Map(account.keySpent),
  }
}

function least(first: bigint, ...more: bigint[]): bigint {
  return more.reduce((a, b) => (b < a ? b : a), first)
}

function most(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((a, b) => a + b, 0n)
}
