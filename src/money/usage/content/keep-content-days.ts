import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'

/** Days to prepare beyond the current one. Without the partition of its day, nothing is recorded. */
const DAYS_AHEAD = 3

/**
 * Makes sure that recorded content has partitions from yesterday, for requests that began before midnight, to three days ahead.
 * Waits for no reader. Returns the names of those that were added. Run it at the start and once an hour.
 */
export async function addContentDays(sql: Sql, nowEpochMs: number): Promise<readonly string[]> {
  const { rows } = await sql.query<{ added: string[] }>('SELECT add_content_days($1, $2) AS added', [
    dayOf(nowEpochMs - DAY_MS),
    dayOf(nowEpochMs + DAYS_AHEAD * DAY_MS),
  ])
  return rows[0]?.added ?? []
}

/**
 * Drops what was recorded more than `days` ago. Returns the names of the dropped partitions. Rejects with lock_not_available while a
 * long transaction, such as a dump, reads recorded content.
 */
export async function dropContentDays(sql: Sql, nowEpochMs: number, days: number): Promise<readonly string[]> {
  const { rows } = await sql.query<{ dropped: string[] }>('SELECT drop_content_days($1) AS dropped', [
    dayOf(nowEpochMs - days * DAY_MS),
  ])
  return rows[0]?.dropped ?? []
}

const dayOf = (epochMs: number) => new Date(epochMs).toISOString().slice(0, 10)
