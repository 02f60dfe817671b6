import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'

/** Returns the UTC day of a time, such as `2026-11-25`. */
export function utcDayOf(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 10)
}

/**
 * Returns the last UTC day of which hosters and customers may know the audits: it ended at least 24 hours ago. A hoster
 * that learns sooner, or more exactly, when it was audited finds the audits in its own log, and answers the next ones
 * better than other requests.
 */
export function shownDay(nowMs: number): string {
  return utcDayOf(nowMs - 2 * DAY_MS)
}

/**
 * The trust score of the hoster `h` as hosters and customers see it, where `$1` is the `shownDay`. A quarantine and a
 * score that the operator has set are shown at once; 0 before the first day that may be shown. Routing uses
 * `hoster.trust_score`.
 */
export const SHOWN_SCORE = `CASE WHEN h.quarantined_at IS NOT NULL THEN 0 ELSE coalesce(h.trust_override, (
    SELECT (d.shown ->> 'score')::float8 FROM hoster_trust_day d WHERE d.hoster_id = h.hoster_id AND d.day <= $1::date ORDER BY d.day DESC LIMIT 1), 0) END`

/** Returns the trust score of a hoster as it may see it itself; 0 for an unknown hoster. */
export async function readShownScore(sql: Sql, hosterId: string, nowMs: number): Promise<number> {
  const { rows } = await sql.query<{ score: number }>(
    `SELECT ${SHOWN_SCORE} AS score FROM hoster h WHERE h.hoster_id = $2`,
    [shownDay(nowMs), hosterId],
  )
  return rows[0]?.score ?? 0
}
