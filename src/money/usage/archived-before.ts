import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'

/**
 * Returns the end of the latest archived month that the period touches, as ISO 8601, or null. Lists and exports lack
 * requests of the period that began before it: the operator has archived their rows, except those of refunded requests.
 * Sums are complete.
 *
 * @param fromMs the beginning of the period (epoch); 0 for all time
 * @param untilMs its end, exclusive; Infinity for no end
 */
export async function archivedBefore(sql: Sql, fromMs: number, untilMs: number): Promise<string | null> {
  const { end } = await queryRow<{ end: Date | null }>(
    sql,
    `SELECT max((month + interval '1 month') AT TIME ZONE 'UTC') AS end FROM usage_archive
     WHERE (month + interval '1 month') AT TIME ZONE 'UTC' > to_timestamp($1::float8 / 1000) AND month AT TIME ZONE 'UTC' < to_timestamp($2::float8 / 1000)`,
    [fromMs, untilMs],
  )
  return end?.toISOString() ?? null
}

/** Whether the usage row of this request is archived, or would be if there was one. */
export async function isArchived(sql: Sql, requestId: string): Promise<boolean> {
  const { archived } = await queryRow<{ archived: boolean }>(
    sql,
    'SELECT EXISTS (SELECT FROM usage_archive WHERE $1 >= from_id AND $1 < to_id) AS archived',
    [requestId],
  )
  return archived
}
