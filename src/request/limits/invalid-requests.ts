import type { Caller } from '../../base/domain/caller.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { secondsUntilWindowEnd } from '../../base/domain/windows.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

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
      if (Math.floor(nowMs / 60_000) !== minute) return
      throw new ApiError('rate_limit_exceeded', {
        message: `This API key has sent ${limits.requestsPerMinute} invalid requests this minute. Correct them, and retry after the minute ends.`,
        retryAfterS: secondsUntilWindowEnd((minute + 1) * 60_000, nowMs),
      })
    },
    note({ keyId }) {
      const thisMinute = Math.floor(clock.epochMs() / 60_000)
      if (thisMinute !== minute) {
        noted.clear()
        minute = thisMinute
      }
      noted.set(keyId, (noted.get(keyId) ?? 0) + 1)
    },
  }
}
