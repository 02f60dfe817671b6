import type { AccountLimits, Caller } from '../domain/caller.ts'
import type { WindowCounts } from '../domain/windows.ts'
import type { Clock } from '../runtime/clock.ts'

/** The rate windows of customers as this node last saw them, for headers on answers that do not pass the ledger. */
export interface WindowView {
  remember(customerId: string, counts: WindowCounts): void
  /**
   * Counts of the current windows; a window that ended counts 0. Reads PostgreSQL once for a customer not seen yet, everybody
   * else's are here without waiting. Never rejects: when that read fails, nothing counts as used, since a header is no reason to
   * lose an answer, and an error least of all.
   */
  current(caller: Caller): WindowCounts | Promise<WindowCounts>
}

const CUSTOMERS_MAX = 10_000

export function createWindowView(deps: {
  clock: Clock
  read: (customerId: string, atEpochMs: number) => Promise<WindowCounts>
}): WindowView {
  // A Map keeps insertion order, so the first key is the one remembered first. Moving a key to the end at each request would have the
  // map copied over and over, and who is dropped is read again.
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
      return known === undefined ? firstRead(customerId, nowMs) : rolled(known, nowMs)
    },
  }

  async function firstRead(customerId: string, nowMs: number): Promise<WindowCounts> {
    try {
      const counts = await deps.read(customerId, nowMs)
      remember(customerId, counts)
      return counts
    } catch {
      // Whatever is wrong with the database is told and logged by the request itself.
      return windowCounts(undefined, nowMs)
    }
  }
}

/** The counts of an account that was read just now, with the ends of its windows; a customer without account has used nothing. */
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

/** UTC days are multiples of 86,400 s of Unix time, so both windows are. */
function endOf(windowMs: number, nowMs: number): number {
  return (Math.floor(nowMs / windowMs) + 1) * windowMs
}

function rolled(counts: WindowCounts, nowMs: number): WindowCounts {
  if (nowMs < counts.minuteEndsAtEpochMs) return counts
  if (nowMs >= counts.dayEndsAtEpochMs) return windowCounts(undefined, nowMs)
  return { ...counts, minuteUsed: 0, minuteEndsAtEpochMs: endOf(MINUTE_MS, nowMs) }
}

/** A list of headers: OpenAI's names for the minute, `-day` twins for the day. Reset values are like OpenAI's: seconds with an `s`. */
export function rateLimitHeaders(limits: AccountLimits, counts: WindowCounts, nowMs: number): string[] {
  const list: string[] = []
  list.push('x-ratelimit-limit-requests', String(limits.requestsPerMinute))
  list.push('x-ratelimit-remaining-requests', String(Math.max(0, limits.requestsPerMinute - counts.minuteUsed)))
  list.push('x-ratelimit-reset-requests', secondsUntil(counts.minuteEndsAtEpochMs, nowMs))
  list.push('x-ratelimit-limit-requests-day', String(limits.requestsPerDay))
  list.push('x-ratelimit-remaining-requests-day', String(Math.max(0, limits.requestsPerDay - counts.dayUsed)))
  list.push('x-ratelimit-reset-requests-day', secondsUntil(counts.dayEndsAtEpochMs, nowMs))
  return list
}

function secondsUntil(epochMs: number, nowMs: number): string {
  return `${Math.max(0, Math.ceil((epochMs - nowMs) / 1000))}s`
}

/** Whole seconds until a window ends, for Retry-After: at least 1, since 0 would invite the same refusal. */
export function retryAfterS(windowEndsAtEpochMs: number, nowMs: number): number {
  return Math.max(1, Math.ceil((windowEndsAtEpochMs - nowMs) / 1000))
}
