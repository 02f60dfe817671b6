import type { AccountLimits, Caller } from '../../base/domain/caller.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

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
    if (seen.size > CUSTOMERS_MAX) seen.delete(seen.keys().next().value!)
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
      if (readAtMs.size > CUSTOMERS_MAX) readAtMs.delete(readAtMs.keys().next().value!)
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

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

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
