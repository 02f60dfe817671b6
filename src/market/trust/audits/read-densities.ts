import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'

const WINDOW_MS = 900_000
/** Audits are at most so many times as frequent as usual, and at least the inverse. */
const DENSITY_MAX = 4
/** So many requests more on both sides: with little traffic, chance decides about the last 15 minutes. */
const SMOOTHING = 4

/**
 * Returns how much more traffic than usual the models of each endpoint have: the requests to hosters of the last 15
 * minutes, over the mean of 15 minutes since yesterday. 0.25 to 4, and 1 without traffic. Audits follow it, so that
 * their part of a hoster's requests is the same at night and at noon.
 */
export async function readDensities(
  sql: Sql,
  endpointIds: readonly string[],
  nowMs: number,
): Promise<ReadonlyMap<string, number>> {
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10)
  const yesterdayMs = Date.parse(day(nowMs - DAY_MS))
  const { rows } = await sql.query<{ endpoint_id: string; usual: number; recent: number }>(
    { name: 'trust_read_densities', text: READ },
    [endpointIds, day(yesterdayMs), new Date(nowMs - WINDOW_MS), new Date(nowMs)],
  )
  const windows = (nowMs - yesterdayMs) / WINDOW_MS
  return new Map(
    rows.map(({ endpoint_id: endpointId, usual, recent }) => {
      const density = (recent + SMOOTHING) / (usual / windows + SMOOTHING)
      return [endpointId, Math.max(1 / DENSITY_MAX, Math.min(DENSITY_MAX, density))]
    }),
  )
}

// An index of block ranges finds the usage rows; the days are sums. With 270,000 rows in 15 minutes among 870,000 it
// takes 0.22 s, on 2 busy cores.
const READ = `
WITH offered AS MATERIALIZED (
    SELECT endpoint_id, model_id FROM hoster_price WHERE endpoint_id = ANY ($1) AND valid_until IS NULL
  ),
  usual AS MATERIALIZED (
    SELECT d.model_id, sum(d.attempts) AS requests FROM hoster_attempt_day d
     WHERE d.day >= $2 AND d.hoster_id IN (SELECT hoster_id FROM hoster) AND d.model_id IN (SELECT model_id FROM offered) GROUP BY 1
  ),
  recent AS MATERIALIZED (
    SELECT u.model_id, count(*) AS requests FROM usage_event u
     WHERE u.started_at > $3 AND u.started_at <= $4 AND u.hoster_id IS NOT NULL AND u.model_id IN (SELECT model_id FROM offered) GROUP BY 1
  )
SELECT o.endpoint_id, coalesce(sum(usual.requests), 0)::float8 AS usual, coalesce(sum(recent.requests), 0)::float8 AS recent
  FROM offered o LEFT JOIN usual USING (model_id) LEFT JOIN recent USING (model_id) GROUP BY o.endpoint_id`
