import type { AccountLimits, LimitReset } from '../../base/domain/caller.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import type { LimitsReport } from '../../wire/api/console-data.ts'

/** What a customer has charged and holds on the current UTC day. */
export interface DaySpend {
  readonly daySpentNanos: Nanos
  readonly dayLeasedNanos: Nanos
}

/** The spend limit of one member. */
interface MemberSpend {
  /** Null: no limit. */
  readonly limitNanos: Nanos | null
  readonly limitReset: LimitReset
  readonly spentNanos: Nanos
  readonly resetsAt: Date | null
}

/** Returns how much of each limit of a customer, and of the member who asks, is used. */
export function limitsReport(
  limits: AccountLimits,
  { minuteUsed, dayUsed, minuteEndsAtEpochMs, dayEndsAtEpochMs }: WindowCounts,
  { daySpentNanos, dayLeasedNanos }: DaySpend,
  member: MemberSpend,
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
    member:
      member.limitNanos === null
        ? null
        : {
            limit_usd: usd(member.limitNanos),
            limit_reset: member.limitReset,
            spent_usd: usd(member.spentNanos),
            resets_at: member.resetsAt?.toISOString() ?? null,
          },
  }
}
