import type { AccountLimits } from '../domain/caller.ts'
import type { WindowCounts } from '../domain/windows.ts'

/** The request limits of a customer and what is left of them, as reports show them. */
export function rateLimits({ requestsPerMinute, requestsPerDay }: AccountLimits, windows: WindowCounts) {
  return {
    limit_per_minute: requestsPerMinute,
    limit_per_day: requestsPerDay,
    // A limit that was lowered within the window can lie below what was used already.
    remaining_this_minute: Math.max(0, requestsPerMinute - windows.minuteUsed),
    remaining_today: Math.max(0, requestsPerDay - windows.dayUsed),
  }
}
