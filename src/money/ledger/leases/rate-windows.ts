import type { Caller } from '../../../base/domain/caller.ts'
import { DAY_MS, MINUTE_MS } from '../../../base/domain/durations.ts'
import type { WindowCounts } from '../../../base/domain/windows.ts'
import { deleteOldest } from '../../../base/runtime/collections.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import { type Admission, type AdmissionResult, isRefusedByWindow } from './admission.ts'

// The rate windows of customers as this node knows them: the counts that answers report, and the refusals that it
// repeats without PostgreSQL, which alone counts for all nodes.

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

type Refusal = Extract<AdmissionResult, { kind: 'refused' }>

/**
 * Remembers customers that have used up their minute or day, so that further requests cost no round trip
 * until the minute ends.
 */
export interface ExhaustedWindows {
  /** The refusal to repeat. Undefined when the window is over, or when the limit was raised. */
  refuse(admission: Admission): Refusal | undefined
  /**
   * `sentAtMs` is the monotonic time before the statement was sent, `databaseNowMs` PostgreSQL's time of the
   * decision.
   */
  remember(admission: Admission, refusal: Refusal, sentAtMs: number, databaseNowMs: number): void
}

export function createExhaustedWindows(monotonicMs: () => number): ExhaustedWindows {
  const byCustomer = new Map<string, { refusal: Refusal; untilMs: number }>()

  return {
    refuse({ customerId, limits }) {
      const known = byCustomer.get(customerId)
      if (known === undefined) return undefined
      const { code, windows } = known.refusal
      const isExhausted =
        code === 'rate_limit_exceeded'
          ? windows.minuteUsed >= limits.requestsPerMinute
          : windows.dayUsed >= limits.requestsPerDay
      if (isExhausted && monotonicMs() < known.untilMs) return known.refusal
      byCustomer.delete(customerId)
      return undefined
    },
    remember({ customerId }, refusal, sentAtMs, databaseNowMs) {
      if (!isRefusedByWindow(refusal.code)) return
      if (byCustomer.size >= CUSTOMERS_MAX) deleteOldest(byCustomer)
      // A used-up day is also asked for again each minute, because the refusal reports the count of the minute too.
      // The time is counted from before the statement was sent, so the entry never outlasts the window, whatever the
      // two wall clocks show.
      byCustomer.set(customerId, { refusal, untilMs: sentAtMs + refusal.windows.minuteEndsAtEpochMs - databaseNowMs })
    },
  }
}
