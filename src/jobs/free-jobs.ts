import type { Sql } from '../db/pool.ts'

/** Longer than any job takes: each waits for its receiver or mail server, and for a few short statements. Audits are told by their sessions. */
const ABANDONED_MINUTES = 15

/** Lets others have the jobs that a queue has taken and will not end, graphile-worker's worker pool of this id. */
export async function freeJobsOf(sql: Sql, poolId: string): Promise<void> {
  await sql.query('SELECT graphile_worker.force_unlock_workers(ARRAY[$1::text])', [poolId])
}

/**
 * The same for jobs of nodes that are gone; returns their tasks. By itself graphile-worker waits four hours, and where it was an audit, there is none for
 * so long, since there is one at a time.
 */
export async function freeAbandonedJobs(sql: Sql): Promise<string[]> {
  const { rows } = await sql.query<{ task: string }>(
    `WITH abandoned AS MATERIALIZED (
       SELECT task_identifier AS task, locked_by FROM graphile_worker.jobs
       WHERE locked_at < now() - $1 * interval '1 minute'
         AND (task_identifier <> 'audit_ledger'
           OR NOT EXISTS (SELECT FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'switchyard audit' AND state <> 'idle'))
     )
     SELECT task FROM abandoned, LATERAL graphile_worker.force_unlock_workers(ARRAY[locked_by])`,
    [ABANDONED_MINUTES],
  )
  return rows.map(({ task }) => task)
}
