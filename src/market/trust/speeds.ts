import type { Sql } from '../../base/db/pool.ts'
import { HOUR_MS } from '../../base/domain/durations.ts'

/** How fast the answers of a hoster arrive. */
interface Speed {
  readonly modelId: string
  /** The median over answers of at least 64 tokens. */
  readonly tokensPerSecond: number
}

/** Reads the speed of the answers of the last hour, at most 1,000 for each model. */
export async function readSpeeds(sql: Sql, hosterId: string, nowMs: number): Promise<Speed[]> {
  const { rows } = await sql.query<Speed>(SPEEDS, [hosterId, new Date(nowMs - HOUR_MS)])
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

/**
 * Tokens per second x billions of parameters that a single answer can reach on any hardware known: wafer-scale chips
 * generate about 2,100 tokens/s with 70 billion parameters. Twice that leaves room for speculative decoding.
 */
const TOKEN_BILLIONS_PER_SECOND_MAX = 2 * 2_100 * 70

/**
 * Whether answers arrive faster than a model of the claimed size can generate them. Only a hint on the trust page: it
 * is no evidence, because nobody knows next year's hardware. Null when the name of the model does not tell its size.
 */
export function isImplausiblyFast(modelId: string, tokensPerSecond: number): boolean | null {
  const billions = activeBillions(modelId)
  return billions === null ? null : tokensPerSecond * billions > TOKEN_BILLIONS_PER_SECOND_MAX
}

/** The active parameters in a name such as `llama-3.3-70b` or `qwen3-30b-a3b`, in billions. */
function activeBillions(modelId: string): number | null {
  const sizes = [...modelId.toLowerCase().matchAll(/(?<![a-z0-9.])(a?)(\d+(?:\.\d+)?)b(?![a-z0-9])/g)]
  const active = sizes.find(([, a]) => a === 'a') ?? sizes[0]
  return active ? Number(active[2]) : null
}
