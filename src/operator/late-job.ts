import type { Sql } from '../base/db/pool.ts'
import { type Said, sentencesOf } from '../base/domain/said.ts'
import { systemSentences } from './system-sentences.ts'
import { LAST_TIMETABLE_RUN } from './timetable-runs.ts'

const say = sentencesOf(systemSentences)

/** The job that has been due for the longest time and that no node has taken. */
export interface LateJob {
  /** Null: the timetable has not added the jobs of a minute. */
  readonly task: string | null
  readonly sinceMs: number
  readonly lateS: number
}

/** A free worker takes a due job within 5 s. The rest is for a backlog, and for a queue that must start again. */
const LATE_MAX_S = 120

/**
 * Returns the job that waits longest, undefined if none is due. Jobs that wait for another one of their queue do not
 * count. The timetable adds jobs every minute, so a minute without any is a job that is missing.
 */
export async function readLateJob(sql: Sql): Promise<LateJob | undefined> {
  const { rows } = await sql.query<{ task: string | null; dueAt: Date; lateS: number }>(
    `WITH due AS (
       SELECT task_identifier AS task, run_at FROM graphile_worker.jobs AS job
       WHERE locked_at IS NULL AND attempts < max_attempts AND run_at <= now()
         AND NOT EXISTS (SELECT FROM graphile_worker.jobs AS other
           WHERE other.queue_name = job.queue_name AND other.locked_at IS NOT NULL)
       UNION ALL
       SELECT NULL, at + interval '1 minute' FROM ${LAST_TIMETABLE_RUN} timetable
     )
     SELECT task, run_at AS "dueAt", extract(epoch FROM now() - run_at)::float8 AS "lateS"
     FROM due WHERE run_at <= now() ORDER BY run_at LIMIT 1`,
  )
  return rows[0] && { task: rows[0].task, sinceMs: rows[0].dueAt.getTime(), lateS: rows[0].lateS }
}

/** Explains to the operator that a job is late; null while none is. */
export function lateJobWarning(job: LateJob | undefined): Said | null {
  if (job === undefined || job.lateS < LATE_MAX_S) return null
  const seconds = Math.round(job.lateS)
  return job.task === null ? say('jobs.none_scheduled', { seconds }) : say('jobs.late', { task: job.task, seconds })
}
