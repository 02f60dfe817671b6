import type { Sql } from '../base/db/pool.ts'

/**
 * When the timetable added jobs. graphile-worker keeps this in a table that it calls private and may change, and
 * reports it by events, so each node writes down what it hears: the row `timetable_runs` of `installation` has the last
 * minute of each task.
 */
export async function noteTimetableRun(sql: Sql, tasks: readonly string[], at: Date): Promise<void> {
  const runs = Object.fromEntries(tasks.map(task => [task, at.toISOString()]))
  await sql.query(
    `INSERT INTO installation AS i (name, value) VALUES ('timetable_runs', $1)
     ON CONFLICT (name) DO UPDATE SET value = (i.value::jsonb || excluded.value::jsonb)::text`,
    [JSON.stringify(runs)],
  )
}

/**
 * Notes which tasks a node has a timetable for, so that one which never adds a job is late too. A second call changes
 * nothing.
 */
export async function noteTimetable(sql: Sql, tasks: readonly string[], startedAt: Date): Promise<void> {
  await sql.query(
    `INSERT INTO installation AS i (name, value) VALUES ('timetable_runs', $1)
     ON CONFLICT (name) DO UPDATE SET value = (excluded.value::jsonb || i.value::jsonb)::text`,
    [JSON.stringify(Object.fromEntries(tasks.map(task => [task, null])))],
  )
  await sql.query(
    "INSERT INTO installation (name, value) VALUES ('timetable_since', $1) ON CONFLICT (name) DO NOTHING",
    [startedAt.toISOString()],
  )
}

/** A subquery with the columns `task` and `at`; `at` is NULL before the first run. */
export const TIMETABLE_RUNS = `(SELECT r.key AS task, r.value::timestamptz AS at
  FROM installation i, jsonb_each_text(i.value::jsonb) r WHERE i.name = 'timetable_runs')`

/** A subquery with one row and one column `at`: when the timetable last added jobs, or began; NULL before. */
export const LAST_TIMETABLE_RUN = `(SELECT coalesce((SELECT max(at) FROM ${TIMETABLE_RUNS} runs),
  (SELECT value::timestamptz FROM installation WHERE name = 'timetable_since')) AS at)`
