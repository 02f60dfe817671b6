import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Caller } from '../../base/domain/caller.ts'
import { microdollars, type Nanos, usd } from '../../base/domain/money.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import type { UsageSummary } from '../../wire/api/reports.ts'
import { lastDays, type Period } from './period.ts'
import { meanLatencyMs, rateLimits, readRefunded } from './report-figures.ts'

/** `GET /v1/usage`: the caller's balance, remaining request limits, and usage of the last 30 UTC days. */
export async function usageSummary(
  sql: Sql,
  caller: Caller,
  balanceNanos: Nanos,
  windows: WindowCounts,
  nowMs: number,
): Promise<UsageSummary> {
  const period = lastDays(30, nowMs)
  const [sums, refundedNanos] = await Promise.all([
    sumUsage(sql, caller.customerId, period),
    readRefunded(sql, caller.customerId, period),
  ])
  return {
    customer: caller.email,
    tier: caller.accountTier,
    credit_balance_usd: usd(balanceNanos),
    rate_limits: {
      requests_this_minute: windows.minuteUsed,
      requests_today: windows.dayUsed,
      ...rateLimits(caller.limits, windows),
    },
    usage_30d: {
      total_requests: Number(sums.requests),
      total_input_tokens: Number(sums.input_tokens),
      total_output_tokens: Number(sums.output_tokens),
      total_cost_microdollars: microdollars(sums.cost_nanos),
      refunded_usd: usd(refundedNanos),
      avg_latency_ms: meanLatencyMs(sums.latency_ms_sum, sums.successes),
    },
  }
}

interface Sums {
  requests: bigint
  successes: bigint
  input_tokens: bigint
  output_tokens: bigint
  cost_nanos: bigint
  latency_ms_sum: bigint
}

async function sumUsage(sql: Sql, customerId: string, { fromIso, untilIso }: Period): Promise<Sums> {
  return queryRow<Sums>(
    sql,
    `SELECT coalesce(sum(requests), 0)::bigint AS requests,
            coalesce(sum(successes), 0)::bigint AS successes,
            coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
            coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
            coalesce(sum(cost_nanos), 0)::bigint AS cost_nanos,
            coalesce(sum(latency_ms_sum), 0)::bigint AS latency_ms_sum
       FROM usage_hour
      WHERE customer_id = $1 AND hour >= $2 AND hour < $3`,
    [customerId, fromIso, untilIso],
  )
}
