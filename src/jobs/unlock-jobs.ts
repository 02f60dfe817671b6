import type { Sql } from '../base/db/pool.ts'

/**
 * After this time a locked job belongs to a dead node, unless its pool has taken another job since: most jobs make one
 * delivery and a few short statements. An audit may take longer; it is recognised by its open session.
 */
const ABANDONED_MINUTES = 15

/**
 * Unlocks the jobs of a stopped queue, so that other nodes can run them. `poolId` is the id of its
 * graphile-worker pool.
 */
export async function unlockJobs(sql: Sql, poolId: string): Promise<void> {
  await sql.query('SELECT graphile_worker.force_unlock_workers(ARRAY[$1::text])', [poolId])
}

/**
 * Unlocks the jobs of dead nodes and returns their tasks. graphile-worker itself would wait four hours. An
 * abandoned audit would stop all audits for that time, because only one can run. All jobs of a pool are unlocked
 * together, so a pool that has taken a job lately keeps all of them: it lives.
 */
export async function unlockAbandonedJobs(sql: Sql): Promise<string[]> {
  const { rows } = await sql.query<{ task: string }>(
    `WITH abandoned AS MATERIALIZED (
       SELECT task_identifier AS task, locked_by FROM graphile_worker.jobs old
       WHERE locked_at < now() - $1 * interval '1 minute'
         AND NOT EXISTS (SELECT FROM graphile_worker.jobs lately
           WHERE lately.locked_by = old.locked_by AND lately.locked_at >= now() - $1 * interval '1 minute')
         AND (task_identifier <> 'audit_ledger'
           OR NOT EXISTS (SELECT FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'switchyard audit' AND state <> 'idle'))
     )
     SELECT task FROM abandoned, LATERAL graphile_worker.force_unlock_workers(ARRAY[locked_by])`,
    [ABANDONED_MINUTES],
  )
  return rows.map(({ task }) => task)
}
