import { MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { secondsUntilWindowEnd } from '../../base/domain/windows.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

interface MinuteLimiterDeps {
  readonly requestsPerMinute: number
  readonly clock: Clock
}

/** Limits the requests of one caller per UTC minute and node, to protect the database. Generation has limits of its own. */
export interface MinuteLimiter {
  /**
   * Counts one request; throws `rate_limit_exceeded` beyond the limit of this UTC minute.
   *
   * @param callerId of a customer, a hoster, a person or a key
   * @param what what is limited, in the plural, for the error
   */
  take(callerId: string, what: string): void
}

export function createMinuteLimiter(deps: MinuteLimiterDeps): MinuteLimiter {
  let minute = -1
  const used = new Map<string, number>()
  return {
    take(callerId, what) {
      const nowMs = deps.clock.epochMs()
      const thisMinute = Math.floor(nowMs / MINUTE_MS)
      if (thisMinute !== minute) {
        used.clear()
        minute = thisMinute
      }
      const count = (used.get(callerId) ?? 0) + 1
      if (count > deps.requestsPerMinute) {
        throw new ApiError('rate_limit_exceeded', {
          message: `The limit of ${deps.requestsPerMinute} ${what} per minute is reached. Retry after the minute ends.`,
          retryAfterS: secondsUntilWindowEnd((thisMinute + 1) * MINUTE_MS, nowMs),
        })
      }
      used.set(callerId, count)
    },
  }
}
