import { MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { secondsUntilWindowEnd } from '../../base/domain/windows.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

interface ReportLimiterDeps {
  readonly requestsPerMinute: number
  /** What is limited, in the plural, for the error. */
  readonly what: string
  readonly clock: Clock
}

/** Limits requests to the usage endpoints per node, to protect the database. Chat requests do not count. */
export interface ReportLimiter {
  /** Counts one report; throws `rate_limit_exceeded` beyond the limit of this UTC minute. */
  take(customerId: string): void
}

export function createReportLimiter(deps: ReportLimiterDeps): ReportLimiter {
  let minute = -1
  const used = new Map<string, number>()
  return {
    take(customerId) {
      const nowMs = deps.clock.epochMs()
      const thisMinute = Math.floor(nowMs / MINUTE_MS)
      if (thisMinute !== minute) {
        used.clear()
        minute = thisMinute
      }
      const count = (used.get(customerId) ?? 0) + 1
      if (count > deps.requestsPerMinute) {
        throw new ApiError('rate_limit_exceeded', {
          message: `The limit of ${deps.requestsPerMinute} ${deps.what} per minute is reached. Retry after the minute ends.`,
          retryAfterS: secondsUntilWindowEnd((thisMinute + 1) * MINUTE_MS, nowMs),
        })
      }
      used.set(customerId, count)
    },
  }
}
