import type { LimitsReport } from '../api/console-data.ts'
import type { AccountLimits } from '../domain/caller.ts'
import { type Nanos, usd } from '../domain/money.ts'
import type { WindowCounts } from '../domain/windows.ts'

/** What a customer has charged and holds on the current UTC day. */
export interface DaySpend {
  readonly daySpentNanos: Nanos
  readonly dayLeasedNanos: Nanos
}

/** Returns how much of each limit of a customer is used. */
export function limitsReport(
  limits: AccountLimits,
  { minuteUsed, dayUsed, minuteEndsAtEpochMs, dayEndsAtEpochMs }: WindowCounts,
  { daySpentNanos, dayLeasedNanos }: DaySpend,
): LimitsReport {
  const dayEnds = new Date(dayEndsAtEpochMs).toISOString()
  return {
    object: 'limits',
    minute: {
      used: minuteUsed,
      limit: limits.requestsPerMinute,
      resets_at: new Date(minuteEndsAtEpochMs).toISOString(),
    },
    day: { used: dayUsed, limit: limits.requestsPerDay, resets_at: dayEnds },
    spend: {
      spent_usd: usd(daySpentNanos),
      held_usd: usd(dayLeasedNanos),
      limit_usd: usd(limits.dailySpendCapNanos),
      resets_at: dayEnds,
    },
  }
}
