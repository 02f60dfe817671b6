import type { Caller } from '../../base/domain/caller.ts'
import { DAY_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { secondsUntilWindowEnd } from '../../base/domain/windows.ts'
import { deleteOldest } from '../../base/runtime/collections.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

// Limits of what a customer gets for nothing, checked for every request: early disconnects and invalid requests.

/** Beyond this number the customer seen first is dropped, so memory is bounded. */
const LEAVING_CUSTOMERS_MAX = 100_000

/**
 * Limits how often a customer may disconnect for free before the first token, since each such request costs a
 * server its prefill. The first `freePerDay` disconnects of a UTC day are free. Further ones are free while the
 * input forgiven that day is worth at most `freeSpendBps` of the customer's charges of that day, because customers
 * that spend more also disconnect more often. Counts are kept in the memory of this node and lost at a restart.
 */
export interface EarlyDisconnects {
  /** Counts one disconnect with input worth `inputNanos`. Returns true when the input must be charged. */
  noteDisconnect(customerId: string, inputNanos: Nanos): boolean
  /** Adds the charge of a request. */
  noteCharge(customerId: string, costNanos: Nanos): void
}

interface Day {
  disconnects: number
  forgivenNanos: Nanos
  spentNanos: Nanos
}

export function createEarlyDisconnects(deps: {
  freePerDay: number
  freeSpendBps: bigint
  clock: Clock
}): EarlyDisconnects {
  let day = -1
  const customers = new Map<string, Day>()
  function todayOf(customerId: string): Day {
    const today = Math.floor(deps.clock.epochMs() / DAY_MS)
    if (today !== day) {
      customers.clear()
      day = today
    }
    let known = customers.get(customerId)
    if (known === undefined) {
      if (customers.size >= LEAVING_CUSTOMERS_MAX) deleteOldest(customers)
      known = { disconnects: 0, forgivenNanos: 0n, spentNanos: 0n }
      customers.set(customerId, known)
    }
    return known
  }
  return {
    noteDisconnect(customerId, inputNanos) {
      const today = todayOf(customerId)
      today.disconnects += 1
      const forgivenNanos = today.forgivenNanos + inputNanos
      const isFree =
        today.disconnects <= deps.freePerDay || forgivenNanos * 10_000n <= today.spentNanos * deps.freeSpendBps
      if (isFree) today.forgivenNanos = forgivenNanos
      return !isFree
    },
    noteCharge(customerId, costNanos) {
      if (costNanos > 0n) todayOf(customerId).spentNanos += costNanos
    },
  }
}

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
      if (Math.floor(nowMs / MINUTE_MS) !== minute) return
      throw new ApiError('rate_limit_exceeded', {
        message: `This API key has sent ${limits.requestsPerMinute} invalid requests this minute. Correct them, and retry after the minute ends.`,
        retryAfterS: secondsUntilWindowEnd((minute + 1) * MINUTE_MS, nowMs),
      })
    },
    note({ keyId }) {
      const thisMinute = Math.floor(clock.epochMs() / MINUTE_MS)
      if (thisMinute !== minute) {
        noted.clear()
        minute = thisMinute
      }
      noted.set(keyId, (noted.get(keyId) ?? 0) + 1)
    },
  }
}
