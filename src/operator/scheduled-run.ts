import type { Sql } from '../base/db/pool.ts'

/** The last run of a daily schedule, as the alarms and the page System need it. */
export interface ScheduledRun {
  /** When it ended, Unix ms. */
  readonly atMs: number
  /** Why it failed; null if all that was due is done. */
  readonly problem: string | null
}

export type Schedule = 'usage_archive' | 'usage_export'

export interface NamedRun {
  readonly schedule: Schedule
  readonly run: ScheduledRun
}

export async function noteScheduledRun(sql: Sql, schedule: Schedule, run: ScheduledRun): Promise<void> {
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [`${schedule}_run`, JSON.stringify(run)],
  )
}

/** Returns null before the first run. */
export async function readScheduledRun(sql: Sql, schedule: Schedule): Promise<ScheduledRun | null> {
  const [found] = await readScheduledRuns(sql, [schedule])
  return found?.run ?? null
}

/** Returns the last run of each of these schedules that has run. */
export async function readScheduledRuns(sql: Sql, schedules: readonly Schedule[]): Promise<NamedRun[]> {
  const { rows } = await sql.query<{ schedule: Schedule; value: string }>(
    "SELECT schedule, value FROM unnest($1::text[]) AS schedule JOIN installation ON name = schedule || '_run' ORDER BY schedule",
    [schedules],
  )
  return rows.map(({ schedule, value }) => ({ schedule, run: JSON.parse(value) as ScheduledRun }))
}
