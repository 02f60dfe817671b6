import type { Sql } from '../base/db/pool.ts'

/** After this time a locked job belongs to a dead node if nothing says that its pool lives. */
const ABANDONED_MINUTES = 15

/** The class of advisory locks by which the pools of graphile-worker show that they live: `pool` in ASCII. */
const POOL_LOCK = 0x706f6f6c

/** Shows that a pool lives, for as long as this session does: its jobs may take longer than `ABANDONED_MINUTES`. */
export async function showPoolLives(session: Sql, poolId: string): Promise<void> {
  await session.query('SELECT pg_advisory_lock_shared($1, hashtext($2))', [POOL_LOCK, poolId])
}

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
 * together, so a pool keeps all of them while its session holds its lock, or when it has taken a job lately: its
 * session may be connecting again.
 */
export async function unlockAbandonedJobs(sql: Sql): Promise<string[]> {
  const { rows } = await sql.query<{ task: string }>(
    `WITH abandoned AS MATERIALIZED (
       SELECT task_identifier AS task, locked_by FROM graphile_worker.jobs old
       WHERE locked_at < now() - $1 * interval '1 minute'
         AND NOT EXISTS (SELECT FROM graphile_worker.jobs lately
           WHERE lately.locked_by = old.locked_by AND lately.locked_at >= now() - $1 * interval '1 minute')
         AND pg_try_advisory_xact_lock($2, hashtext(locked_by))
     )
     SELECT task FROM abandoned, LATERAL graphile_worker.force_unlock_workers(ARRAY[locked_by])`,
    [ABANDONED_MINUTES, POOL_LOCK],
  )
  return rows.map(({ task }) => task)
}
