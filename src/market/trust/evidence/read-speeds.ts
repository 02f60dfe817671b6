import type { Sql } from '../../../base/db/pool.ts'

/** How fast the answers of a hoster arrive. */
export interface Speed {
  readonly modelId: string
  /** The median over answers of at least 64 tokens. */
  readonly tokensPerSecond: number
}

/** Reads the speed of the answers of the last hour, at most 1,000 for each model. */
export async function readSpeeds(sql: Sql, hosterId: string, nowMs: number): Promise<Speed[]> {
  const { rows } = await sql.query<Speed>(SPEEDS, [hosterId, new Date(nowMs - 3_600_000)])
  return rows
}

const SPEEDS = `
SELECT model_id AS "modelId", percentile_cont(0.5) WITHIN GROUP (ORDER BY speed) AS "tokensPerSecond" FROM (
  SELECT model_id, counted_output_tokens * 1000.0 / greatest(latency_ms - first_token_ms, 1) AS speed,
    row_number() OVER (PARTITION BY model_id ORDER BY request_id DESC) AS place
  FROM usage_event
  WHERE started_at > $2 AND hoster_id = $1 AND outcome = 'served' AND counted_output_tokens >= 64 AND first_token_ms IS NOT NULL
    AND latency_ms > first_token_ms
) AS answers WHERE place <= 1000 GROUP BY 1 ORDER BY 1`
