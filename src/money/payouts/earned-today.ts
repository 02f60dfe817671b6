import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'

/** Returns what a hoster earned from requests of one UTC day, and of all days, less refunds. Reads sums by day, and no requests. */
export async function earnedToday(
  sql: Sql,
  hosterId: string,
  nowMs: number,
): Promise<{ readonly todayNanos: Nanos; readonly totalNanos: Nanos }> {
  const { rows } = await sql.query<{ todayNanos: Nanos; totalNanos: Nanos }>(
    `SELECT coalesce(sum(hoster_share_nanos - refunded_share_nanos) FILTER (WHERE day = ($2::timestamptz AT TIME ZONE 'UTC')::date), 0)::bigint
         AS "todayNanos",
       coalesce(sum(hoster_share_nanos - refunded_share_nanos), 0)::bigint AS "totalNanos"
     FROM hoster_line WHERE hoster_id = $1`,
    [hosterId, new Date(nowMs)],
  )
  return rows[0]!
}
