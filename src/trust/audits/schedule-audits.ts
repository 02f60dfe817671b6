import { type Pool, transaction } from '../../db/pool.ts'

/** The task of the job queue that audits one endpoint. */
export const AUDIT_HOSTER = 'audit_hoster'

/**
 * Plans the audits of the next two minutes: one job each, at a random second. The pauses between the audits of an endpoint are drawn
 * from an exponential distribution, so that no hoster can tell from the last one when the next comes. Returns the number of
 * jobs.
 *
 * @param random uniform in [0, 1)
 */
export function scheduleAudits(
  pool: Pool,
  { nowMs, meanPauseMs, random }: { nowMs: number; meanPauseMs: number; random: () => number },
): Promise<number> {
  const pauseMs = () => meanPauseMs * Math.min(PAUSE_MAX, -Math.log(1 - random()))
  return transaction(pool, async sql => {
    const { rows } = await sql.query<{ endpoint_id: string; next_audit_at: Date | null }>(
      `SELECT endpoint_id, next_audit_at FROM hoster_endpoint JOIN hoster USING (hoster_id)
        WHERE state = 'active' AND (next_audit_at IS NULL OR next_audit_at < $1)
        ORDER BY endpoint_id FOR UPDATE OF hoster_endpoint SKIP LOCKED`,
      [new Date(nowMs + AHEAD_MS)],
    )
    let jobs = 0
    for (const { endpoint_id: endpointId, next_audit_at: due } of rows) {
      const atMs = Math.max(nowMs, due === null ? nowMs + pauseMs() : due.getTime())
      if (due !== null) {
        jobs++
        await sql.query(
          `SELECT graphile_worker.add_job($1, payload := json_build_object('endpoint_id', $2::text), run_at := $3, max_attempts := 1)`,
          [AUDIT_HOSTER, endpointId, new Date(atMs)],
        )
      }
      const nextMs = due === null ? atMs : atMs + pauseMs()
      await sql.query('UPDATE hoster_endpoint SET next_audit_at = $2 WHERE endpoint_id = $1', [
        endpointId,
        new Date(nextMs),
      ])
    }
    return jobs
  })
}

/** The longest pause, in mean pauses. */
const PAUSE_MAX = 4
const AHEAD_MS = 120_000
