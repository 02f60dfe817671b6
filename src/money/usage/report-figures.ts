import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { AccountLimits } from '../../base/domain/caller.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import type { Period } from './period.ts'

/** Returns the request limits of a customer and what is left of them. */
export function rateLimits({ requestsPerMinute, requestsPerDay }: AccountLimits, windows: WindowCounts) {
  return {
    limit_per_minute: requestsPerMinute,
    limit_per_day: requestsPerDay,
    // A limit that was lowered during the window can be smaller than the use so far.
    remaining_this_minute: Math.max(0, requestsPerMinute - windows.minuteUsed),
    remaining_today: Math.max(0, requestsPerDay - windows.dayUsed),
  }
}

/** Returns the mean latency of successful requests in milliseconds, to the microsecond; 0 when there were none. */
export function meanLatencyMs(latencyMsSum: number | bigint, successes: number | bigint): number {
  return Number(successes) === 0 ? 0 : Math.round((Number(latencyMsSum) / Number(successes)) * 1000) / 1000
}

/**
 * Sums the refunds of requests that began in the period, whenever the refund was made. Refunds therefore never
 * exceed the cost of the same requests, and a report of past days shows their final cost.
 */
export async function readRefunded(sql: Sql, customerId: string, { fromIso, untilIso }: Period): Promise<Nanos> {
  const { refunded } = await queryRow<{ refunded: Nanos }>(
    sql,
    `SELECT coalesce(sum(amount_nanos), 0)::bigint AS refunded
       FROM refund WHERE customer_id = $1 AND started_at >= $2 AND started_at < $3`,
    [customerId, fromIso, untilIso],
  )
  return refunded
}
