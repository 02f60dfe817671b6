import type { Sql } from '../../base/db/pool.ts'
import { usd } from '../../base/domain/money.ts'
import type { UsageBreakdown } from '../../wire/api/reports.ts'
import { bucketStarts, lastDays, type Period } from './period.ts'
import { meanLatencyMs } from './report-figures.ts'

/** `GET /v1/usage/breakdown`: the cost of the last `days` UTC days, per model and provider and per day. */
export async function usageBreakdown(
  sql: Sql,
  customerId: string,
  days: number,
  nowMs: number,
): Promise<UsageBreakdown> {
  const period = lastDays(days, nowMs)
  const [models, usedDays] = await Promise.all([readModels(sql, customerId, period), readDays(sql, customerId, period)])
  return {
    by_model: models.map(row => ({
      model_id: row.model_id,
      provider: row.provider,
      requests: Number(row.requests),
      input_tokens: Number(row.input_tokens),
      output_tokens: Number(row.output_tokens),
      cached_tokens: Number(row.cached_tokens),
      total_cost_usd: usd(row.cost_nanos),
      platform_fee_usd: usd(row.fee_nanos),
      hoster_earned_usd: usd(row.hoster_share_nanos),
      avg_latency_ms: meanLatencyMs(row.latency_ms_sum, row.successes),
    })),
    daily: bucketStarts(period, 'day').map(startMs => {
      const date = new Date(startMs).toISOString().slice(0, 10)
      const row = usedDays.get(date) ?? NO_USAGE
      return {
        date,
        requests: Number(row.requests),
        input_tokens: Number(row.input_tokens),
        output_tokens: Number(row.output_tokens),
        total_tokens: Number(row.input_tokens + row.output_tokens),
        cached_tokens: Number(row.cached_tokens),
        cost_usd: usd(row.cost_nanos),
        platform_fee_usd: usd(row.fee_nanos),
        hoster_earned_usd: usd(row.hoster_share_nanos),
      }
    }),
  }
}

interface Sums {
  requests: bigint
  input_tokens: bigint
  output_tokens: bigint
  cached_tokens: bigint
  cost_nanos: bigint
  fee_nanos: bigint
  hoster_share_nanos: bigint
}

const NO_USAGE: Sums = {
  requests: 0n,
  input_tokens: 0n,
  output_tokens: 0n,
  cached_tokens: 0n,
  cost_nanos: 0n,
  fee_nanos: 0n,
  hoster_share_nanos: 0n,
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
            sum(cached_tokens)::bigint AS cached_tokens,
            sum(cost_nanos)::bigint AS cost_nanos,
            sum(fee_nanos)::bigint AS fee_nanos,
            sum(hoster_share_nanos)::bigint AS hoster_share_nanos,
            sum(latency_ms_sum)::bigint AS latency_ms_sum
       FROM usage_day
      WHERE customer_id = $1 AND day >= $2 AND day < $3
      GROUP BY model_id, provider
     HAVING sum(requests) > 0
      ORDER BY sum(cost_nanos) DESC, sum(requests) DESC, model_id, provider`,
    [customerId, fromIso.slice(0, 10), untilIso.slice(0, 10)],
  )
  return rows
}

/** Reads the sums by date. Days without usage are missing. */
async function readDays(sql: Sql, customerId: string, { fromIso, untilIso }: Period): Promise<Map<string, Sums>> {
  const { rows } = await sql.query<Sums & { date: string }>(
    `SELECT day AS date,
            sum(requests)::bigint AS requests,
            sum(input_tokens)::bigint AS input_tokens,
            sum(output_tokens)::bigint AS output_tokens,
            sum(cached_tokens)::bigint AS cached_tokens,
            sum(cost_nanos)::bigint AS cost_nanos,
            sum(fee_nanos)::bigint AS fee_nanos,
            sum(hoster_share_nanos)::bigint AS hoster_share_nanos
       FROM usage_day
      WHERE customer_id = $1 AND day >= $2 AND day < $3
      GROUP BY day`,
    [customerId, fromIso.slice(0, 10), untilIso.slice(0, 10)],
  )
  return new Map(rows.map(row => [row.date, row]))
}
