import type { Sql } from '../db/pool.ts'
import { usd } from '../domain/money.ts'
import type { Interval, TokenUsageReport } from '../wire/reports.ts'
import { meanLatencyMs } from './mean-latency.ts'
import { lastDays, type Period } from './period.ts'

/**
 * SPEC 2.2: token use of the last `days` UTC days in buckets of `interval`, empty buckets included. The first week or
 * month may begin before the period, but counts only what lies inside it: the buckets always sum to the totals.
 */
export async function tokenUsage(
  sql: Sql,
  customerId: string,
  days: number,
  interval: Interval,
  nowMs: number,
): Promise<TokenUsageReport> {
  const buckets = await readBuckets(sql, customerId, lastDays(days, nowMs), interval)
  const total = (count: (bucket: Bucket) => bigint) => buckets.reduce((sum, bucket) => sum + count(bucket), 0n)
  return {
    period_days: days,
    interval,
    totals: {
      input_tokens: Number(total(bucket => bucket.input_tokens)),
      output_tokens: Number(total(bucket => bucket.output_tokens)),
      total_tokens: Number(total(bucket => bucket.input_tokens + bucket.output_tokens)),
      cost_usd: usd(total(bucket => bucket.cost_nanos)),
      requests: Number(total(bucket => bucket.requests)),
    },
    timeseries: buckets.map(bucket => ({
      period: bucket.period,
      input_tokens: Number(bucket.input_tokens),
      output_tokens: Number(bucket.output_tokens),
      total_tokens: Number(bucket.input_tokens + bucket.output_tokens),
      cost_usd: usd(bucket.cost_nanos),
      requests: Number(bucket.requests),
      local_requests: Number(bucket.local_requests),
      hoster_requests: Number(bucket.hoster_requests),
      cloud_requests: Number(bucket.cloud_requests),
      avg_latency_ms: meanLatencyMs(bucket.latency_ms_sum, bucket.successes),
    })),
  }
}

interface Bucket {
  period: string
  input_tokens: bigint
  output_tokens: bigint
  cost_nanos: bigint
  requests: bigint
  successes: bigint
  local_requests: bigint
  hoster_requests: bigint
  cloud_requests: bigint
  latency_ms_sum: bigint
}

async function readBuckets(
  sql: Sql,
  customerId: string,
  { fromIso, untilIso }: Period,
  interval: Interval,
): Promise<Bucket[]> {
  // In UTC whatever the session's time zone is: `AT TIME ZONE 'UTC'` makes timestamps without a zone, and those have no
  // daylight saving for a step of one day to trip over.
  const { rows } = await sql.query<Bucket>(
    `WITH bucket AS (
       SELECT generate_series(
                date_trunc($4, $2::timestamptz AT TIME ZONE 'UTC'),
                $3::timestamptz AT TIME ZONE 'UTC' - interval '1 hour',
                ('1 ' || $4)::interval
              ) AS starts_at
     ), used AS (
       SELECT date_trunc($4, hour AT TIME ZONE 'UTC') AS starts_at,
              sum(input_tokens) AS input_tokens,
              sum(output_tokens) AS output_tokens,
              sum(cost_nanos) AS cost_nanos,
              sum(requests) AS requests,
              sum(successes) AS successes,
              sum(requests) FILTER (WHERE provider = 'local') AS local_requests,
              sum(requests) FILTER (WHERE provider = 'hoster') AS hoster_requests,
              sum(requests) FILTER (WHERE provider = 'cloud') AS cloud_requests,
              sum(latency_ms_sum) AS latency_ms_sum
         FROM usage_rollup
        WHERE customer_id = $1 AND hour >= $2 AND hour < $3
        GROUP BY 1
     )
     SELECT to_char(starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"') AS period,
            coalesce(input_tokens, 0)::bigint AS input_tokens,
            coalesce(output_tokens, 0)::bigint AS output_tokens,
            coalesce(cost_nanos, 0)::bigint AS cost_nanos,
            coalesce(requests, 0)::bigint AS requests,
            coalesce(successes, 0)::bigint AS successes,
            coalesce(local_requests, 0)::bigint AS local_requests,
            coalesce(hoster_requests, 0)::bigint AS hoster_requests,
            coalesce(cloud_requests, 0)::bigint AS cloud_requests,
            coalesce(latency_ms_sum, 0)::bigint AS latency_ms_sum
       FROM bucket LEFT JOIN used USING (starts_at)
      ORDER BY starts_at`,
    [customerId, fromIso, untilIso, interval],
  )
  return rows
}
