import type { Sql } from '../db/pool.ts'
import { usd } from '../domain/money.ts'
import type { UsageBreakdown } from '../wire/reports.ts'
import { meanLatencyMs } from './mean-latency.ts'
import { lastDays, type Period } from './period.ts'

/** SPEC 2.3: where the money of the last `days` UTC days went, per model and provider and per day. */
export async function usageBreakdown(
  sql: Sql,
  customerId: string,
  days: number,
  nowMs: number,
): Promise<UsageBreakdown> {
  const period = lastDays(days, nowMs)
  const [models, daily] = await Promise.all([readModels(sql, customerId, period), readDays(sql, customerId, period)])
  return {
    by_model: models.map(row => ({
      model_id: row.model_id,
      provider: row.provider,
      requests: Number(row.requests),
      input_tokens: Number(row.input_tokens),
      output_tokens: Number(row.output_tokens),
      total_cost_usd: usd(row.cost_nanos),
      platform_fee_usd: usd(row.fee_nanos),
      hoster_earned_usd: usd(row.hoster_share_nanos),
      avg_latency_ms: meanLatencyMs(row.latency_ms_sum, row.successes),
    })),
    daily: daily.map(row => ({
      date: row.date,
      requests: Number(row.requests),
      input_tokens: Number(row.input_tokens),
      output_tokens: Number(row.output_tokens),
      total_tokens: Number(row.input_tokens + row.output_tokens),
      cost_usd: usd(row.cost_nanos),
      platform_fee_usd: usd(row.fee_nanos),
      hoster_earned_usd: usd(row.hoster_share_nanos),
    })),
  }
}

interface Sums {
  requests: bigint
  input_tokens: bigint
  output_tokens: bigint
  cost_nanos: bigint
  fee_nanos: bigint
  hoster_share_nanos: bigint
}

interface ModelSums extends Sums {
  model_id: string
  provider: UsageBreakdown['by_model'][number]['provider']
  successes: bigint
  latency_ms_sum: bigint
}

async function readModels(sql: Sql, customerId: string, { fromIso, untilIso }: Period): Promise<ModelSums[]> {
  const { rows } = await sql.query<ModelSums>(
    `SELECT model_id, provider,
            sum(requests)::bigint AS requests,
            sum(successes)::bigint AS successes,
            sum(input_tokens)::bigint AS input_tokens,
            sum(output_tokens)::bigint AS output_tokens,
            sum(cost_nanos)::bigint AS cost_nanos,
            sum(fee_nanos)::bigint AS fee_nanos,
            sum(hoster_share_nanos)::bigint AS hoster_share_nanos,
            sum(latency_ms_sum)::bigint AS latency_ms_sum
       FROM usage_rollup
      WHERE customer_id = $1 AND hour >= $2 AND hour < $3
      GROUP BY model_id, provider
      ORDER BY sum(cost_nanos) DESC, sum(requests) DESC, model_id, provider`,
    [customerId, fromIso, untilIso],
  )
  return rows
}

async function readDays(
  sql: Sql,
  customerId: string,
  { fromIso, untilIso }: Period,
): Promise<(Sums & { date: string })[]> {
  const { rows } = await sql.query<Sums & { date: string }>(
    `WITH bucket AS (
       SELECT generate_series(
                $2::timestamptz AT TIME ZONE 'UTC',
                $3::timestamptz AT TIME ZONE 'UTC' - interval '1 day',
                interval '1 day'
              ) AS starts_at
     ), used AS (
       SELECT date_trunc('day', hour AT TIME ZONE 'UTC') AS starts_at,
              sum(requests) AS requests,
              sum(input_tokens) AS input_tokens,
              sum(output_tokens) AS output_tokens,
              sum(cost_nanos) AS cost_nanos,
              sum(fee_nanos) AS fee_nanos,
              sum(hoster_share_nanos) AS hoster_share_nanos
         FROM usage_rollup
        WHERE customer_id = $1 AND hour >= $2 AND hour < $3
        GROUP BY 1
     )
     SELECT to_char(starts_at, 'YYYY-MM-DD') AS date,
            coalesce(requests, 0)::bigint AS requests,
            coalesce(input_tokens, 0)::bigint AS input_tokens,
            coalesce(output_tokens, 0)::bigint AS output_tokens,
            coalesce(cost_nanos, 0)::bigint AS cost_nanos,
            coalesce(fee_nanos, 0)::bigint AS fee_nanos,
            coalesce(hoster_share_nanos, 0)::bigint AS hoster_share_nanos
       FROM bucket LEFT JOIN used USING (starts_at)
      ORDER BY starts_at`,
    [customerId, fromIso, untilIso],
  )
  return rows
}
