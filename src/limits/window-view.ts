import type { AccountLimits, Caller } from '../domain/caller.ts'
import type { WindowCounts } from '../domain/windows.ts'
import type { Clock } from '../runtime/clock.ts'

/**
 * The rate windows of customers as this node last saw them, for the headers of answers that do not involve
 * the ledger.
 */
export interface WindowView {
  remember(customerId: string, counts: WindowCounts): void
  /**
   * Returns the counts of the current windows; a window that ended counts 0. Reads PostgreSQL once for a
   * customer not seen yet and returns other customers' counts at once. Never rejects: when the read fails,
   * all counts are 0, since a missing header must not fail an answer.
   */
  current(caller: Caller): WindowCounts | Promise<WindowCounts>
}

const CUSTOMERS_MAX = 10_000

export function createWindowView(deps: {
  clock: Clock
  read: (customerId: string, atEpochMs: number) => Promise<WindowCounts>
}): WindowView {
  // A Map keeps insertion order, so the first key is the oldest. Keys are not moved to the end on use: that
  // would copy the map over and over, and a dropped customer is simply read again.
  const seen = new Map<string, WindowCounts>()
  function remember(customerId: string, counts: WindowCounts) {
    seen.set(customerId, counts)
    if (seen.size > CUSTOMERS_MAX) seen.delete(seen.keys().next().value!)
  }
  return {
    remember,
    current({ customerId }) {
      const nowMs = deps.clock.epochMs()
      const known = seen.get(customerId)
      return known === undefined ? firstRead(customerId, nowMs) : withoutEndedWindows(known, nowMs)
    },
  }

  async function firstRead(customerId: string, nowMs: number): Promise<WindowCounts> {
    try {
      const counts = await deps.read(customerId, nowMs)
      remember(customerId, counts)
      return counts
    } catch {
      // The request itself reports and logs a failing database.
      return windowCounts(undefined, nowMs)
    }
  }
}

/** Builds the window counts of an account read at `nowMs`. A customer without an account has used nothing. */
export function windowCounts(
  account: { readonly minuteRequests: number; readonly dayRequests: number } | undefined,
  nowMs: number,
): WindowCounts {
  return {
    minuteUsed: account?.minuteRequests ?? 0,
    dayUsed: account?.dayRequests ?? 0,
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
  if (nowMs >= counts.dayEndsAtEpochMs) return windowCounts(undefined, nowMs)
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
