import type { Sql } from '../base/db/pool.ts'

/** The last run of a daily schedule, as the alarms and the page System need it. */
export interface ScheduledRun {
  /** When it ended, Unix ms. */
  readonly atMs: number
  /** Why it failed; null if all that was due is done. */
  readonly problem: string | null
}

type Schedule = 'usage_archive' | 'usage_export'

export async function noteScheduledRun(sql: Sql, schedule: Schedule, run: ScheduledRun): Promise<void> {
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [`${schedule}_run`, JSON.stringify(run)],
  )
}

/** Returns null before the first run. */
export async function readScheduledRun(sql: Sql, schedule: Schedule): Promise<ScheduledRun | null> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [
    `${schedule}_run`,
  ])
  return JSON.parse(rows[0]?.value ?? 'null') as ScheduledRun | null
}
