import type { AccountLimits, Caller } from '../../base/domain/caller.ts'
import { DAY_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { secondsUntilWindowEnd, type WindowCounts } from '../../base/domain/windows.ts'
import { deleteOldest } from '../../base/runtime/collections.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

// Three limits of what is not paid for, which run for every request: the windows that answers report, early disconnects
// and invalid requests.

/**
 * The rate windows of customers as this node last saw them, for the headers of answers that do not involve
 * the ledger.
 */
export interface WindowView {
  remember(customerId: string, counts: WindowCounts): void
  /**
   * Returns the counts of the current windows; a window that ended counts 0. Reads PostgreSQL for a customer not
   * seen yet and, if there are other nodes, once a second for requests that were not counted here (`isCounted`).
   * Returns all other counts at once. Never rejects: when a read fails, the counts are the last known ones or 0,
   * since a missing header must not fail an answer.
   */
  current(caller: Caller, isCounted: boolean): WindowCounts | Promise<WindowCounts>
}

const CUSTOMERS_MAX = 10_000
/** How long counts that were read stay right while other nodes serve the customer too. */
const READ_MS = 1_000

export function createWindowView(deps: {
  clock: Clock
  read: (customerId: string, atEpochMs: number) => Promise<WindowCounts>
  hasPeers: () => boolean
}): WindowView {
  // A Map keeps insertion order, so the first key is the oldest. Keys are not moved to the end on use: that
  // would copy the map over and over, and a dropped customer is simply read again.
  const seen = new Map<string, WindowCounts>()
  const readAtMs = new Map<string, number>()
  function remember(customerId: string, counts: WindowCounts) {
    seen.set(customerId, counts)
    if (seen.size > CUSTOMERS_MAX) deleteOldest(seen)
  }
  return {
    remember,
    current({ customerId }, isCounted) {
      const nowMs = deps.clock.epochMs()
      const known = seen.get(customerId)
      return known === undefined || (!isCounted && isOutdated(customerId))
        ? read(customerId, nowMs)
        : withoutEndedWindows(known, nowMs)
    },
  }

  function isOutdated(customerId: string): boolean {
    return deps.hasPeers() && deps.clock.monotonicMs() - (readAtMs.get(customerId) ?? -READ_MS) >= READ_MS
  }

  async function read(customerId: string, nowMs: number): Promise<WindowCounts> {
    try {
      readAtMs.set(customerId, deps.clock.monotonicMs())
      if (readAtMs.size > CUSTOMERS_MAX) deleteOldest(readAtMs)
      const counts = await deps.read(customerId, nowMs)
      remember(customerId, counts)
      return counts
    } catch {
      // The request itself reports and logs a failing database.
      return withoutEndedWindows(seen.get(customerId) ?? noRequests(nowMs), nowMs)
    }
  }
}

/** The windows of a customer that has made no request. */
export function noRequests(nowMs: number): WindowCounts {
  return {
    minuteUsed: 0,
    dayUsed: 0,
    minuteEndsAtEpochMs: endOf(MINUTE_MS, nowMs),
    dayEndsAtEpochMs: endOf(DAY_MS, nowMs),
  }
}

/** Windows begin at multiples of their length in Unix time, in which each UTC day has 86,400 s. */
function endOf(windowMs: number, nowMs: number): number {
  return (Math.floor(nowMs / windowMs) + 1) * windowMs
}

function withoutEndedWindows(counts: WindowCounts, nowMs: number): WindowCounts {
  if (nowMs < counts.minuteEndsAtEpochMs) return counts
  if (nowMs >= counts.dayEndsAtEpochMs) return noRequests(nowMs)
  return { ...counts, minuteUsed: 0, minuteEndsAtEpochMs: endOf(MINUTE_MS, nowMs) }
}

/**
 * Returns names and values in turn: OpenAI's headers for the minute and the same with `-day` for the day.
 * Reset values are seconds with an `s`.
 */
export function rateLimitHeaders(limits: AccountLimits, counts: WindowCounts, nowMs: number): string[] {
  const list: string[] = []
  list.push('x-ratelimit-limit-requests', String(limits.requestsPerMinute))
  list.push('x-ratelimit-remaining-requests', String(Math.max(0, limits.requestsPerMinute - counts.minuteUsed)))
  list.push('x-ratelimit-reset-requests', resetText(counts.minuteEndsAtEpochMs, nowMs))
  list.push('x-ratelimit-limit-requests-day', String(limits.requestsPerDay))
  list.push('x-ratelimit-remaining-requests-day', String(Math.max(0, limits.requestsPerDay - counts.dayUsed)))
  list.push('x-ratelimit-reset-requests-day', resetText(counts.dayEndsAtEpochMs, nowMs))
  return list
}

function resetText(epochMs: number, nowMs: number): string {
  return `${Math.max(0, Math.ceil((epochMs - nowMs) / 1000))}s`
}

/** Beyond this number the customer seen first is dropped, so memory is bounded. */
const LEAVING_CUSTOMERS_MAX = 100_000

/**
 * Limits how often a customer may disconnect for free before the first token, since each such request costs a
 * server its prefill. The first `freePerDay` disconnects of a UTC day are free. Further ones are free while the
 * input forgiven that day is worth at most `freeSpendBps` of the customer's charges of that day, because customers
 * that spend more also disconnect more often. Counts are kept in the memory of this node and lost at a restart.
 */
export interface EarlyDisconnects {
  /** Counts one disconnect with input worth `inputNanos`. Returns true when the input must be charged. */
  noteDisconnect(customerId: string, inputNanos: Nanos): boolean
  /** Adds the charge of a request. */
  noteCharge(customerId: string, costNanos: Nanos): void
}

interface Day {
  disconnects: number
  forgivenNanos: Nanos
  spentNanos: Nanos
}

export function createEarlyDisconnects(deps: {
  freePerDay: number
  freeSpendBps: bigint
  clock: Clock
}): EarlyDisconnects {
  let day = -1
  const customers = new Map<string, Day>()
  function todayOf(customerId: string): Day {
    const today = Math.floor(deps.clock.epochMs() / DAY_MS)
    if (today !== day) {
      customers.clear()
      day = today
    }
    let known = customers.get(customerId)
    if (known === undefined) {
      if (customers.size >= LEAVING_CUSTOMERS_MAX) deleteOldest(customers)
      known = { disconnects: 0, forgivenNanos: 0n, spentNanos: 0n }
      customers.set(customerId, known)
    }
    return known
  }
  return {
    noteDisconnect(customerId, inputNanos) {
      const today = todayOf(customerId)
      today.disconnects += 1
      const forgivenNanos = today.forgivenNanos + inputNanos
      const isFree =
        today.disconnects <= deps.freePerDay || forgivenNanos * 10_000n <= today.spentNanos * deps.freeSpendBps
      if (isFree) today.forgivenNanos = forgivenNanos
      return !isFree
    },
    noteCharge(customerId, costNanos) {
      if (costNanos > 0n) todayOf(customerId).spentNanos += costNanos
    },
  }
}

/**
 * Limits invalid requests: those that are refused before the rate windows count them, such as bodies that are not
 * JSON. Each key may send as many a minute, to this node, as its account may send valid ones. Then its requests are
 * refused unread until the minute ends.
 */
export interface InvalidRequests {
  /** Throws `rate_limit_exceeded` if the key has sent too many invalid requests this UTC minute. */
  refuseExcess(caller: Caller): void
  note(caller: Caller): void
}

export function createInvalidRequests({ clock }: { clock: Clock }): InvalidRequests {
  let minute = -1
  const noted = new Map<string, number>()
  return {
    refuseExcess({ keyId, limits }) {
      // The usual case, without reading the clock.
      if (noted.size === 0 || (noted.get(keyId) ?? 0) < limits.requestsPerMinute) return
      const nowMs = clock.epochMs()
      if (Math.floor(nowMs / MINUTE_MS) !== minute) return
      throw new ApiError('rate_limit_exceeded', {
        message: `This API key has sent ${limits.requestsPerMinute} invalid requests this minute. Correct them, and retry after the minute ends.`,
        retryAfterS: secondsUntilWindowEnd((minute + 1) * MINUTE_MS, nowMs),
      })
    },
    note({ keyId }) {
      const thisMinute = Math.floor(clock.epochMs() / MINUTE_MS)
      if (thisMinute !== minute) {
        noted.clear()
        minute = thisMinute
      }
      noted.set(keyId, (noted.get(keyId) ?? 0) + 1)
    },
  }
}
