import { expect, test, vi } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { runQueue } from '../../src/jobs/run-queue.ts'
import { showPoolLives, unlockAbandonedJobs } from '../../src/jobs/unlock-jobs.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useJobWorld } from './job-world.ts'

const world = useJobWorld()

test('takes back jobs of a dead node, and of a living one once its session has ended', async () => {
  const { pool, connection } = world.database
  await pool.query(`SELECT graphile_worker.add_job('deliver_alert'), graphile_worker.add_job('prune_alerts'),
    graphile_worker.add_job('audit_ledger', queue_name => 'audit')`)
  await pool.query(
    `UPDATE graphile_worker._private_jobs j SET locked_by = 'pool of ' || t.identifier,
       locked_at = now() - CASE t.identifier WHEN 'prune_alerts' THEN 14 ELSE 16 END * interval '1 minute'
     FROM graphile_worker._private_tasks t WHERE t.id = j.task_id`,
  )
  await pool.query(
    `UPDATE graphile_worker._private_job_queues SET locked_by = 'pool of audit_ledger', locked_at = now()`,
  )
  const living = createPool(connection, { max: 1, applicationName: 'living' })
  await showPoolLives(living.pg, 'pool of audit_ledger')
  expect(await unlockAbandonedJobs(pool)).toEqual(['deliver_alert'])
  await living.end()
  await vi.waitFor(async () => expect(await unlockAbandonedJobs(pool)).toEqual(['audit_ledger']), WAIT_OPTIONS)
  expect(await world.lockedTasks()).toEqual(['prune_alerts'])
  const { rows } = await pool.query('SELECT FROM graphile_worker._private_job_queues WHERE locked_at IS NOT NULL')
  expect(rows).toEqual([])
})

// Went wrong: a job of more than 15 minutes on a pool that took no other one meanwhile ran twice at once.
test('leaves a long job to the pool that runs it', async () => {
  const { pool, connection } = world.database
  await pool.query('DELETE FROM graphile_worker._private_jobs')
  const started = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const queuePool = createPool(connection, { max: 5, applicationName: 'queue' })
  const queue = await runQueue({
    sql: pool,
    queuePool,
    taskList: {
      long_job: async () => {
        started.resolve()
        await end.promise
      },
    },
    onJobFailure: () => {},
    pollMs: 100,
    log: world.log,
  })
  await pool.query("SELECT graphile_worker.add_job('long_job')")
  await started.promise
  await pool.query("UPDATE graphile_worker._private_jobs SET locked_at = now() - interval '16 minutes'")
  await vi.waitFor(async () => {
    const { rows } = await pool.query(`SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
       WHERE locktype = 'advisory' AND mode = 'ShareLock' AND datname = current_database()`)
    expect(rows).toHaveLength(1)
  }, WAIT_OPTIONS)
  expect(await unlockAbandonedJobs(pool)).toEqual([])
  end.resolve()
  await queue.stop()
  await queuePool.end()
})

// Went wrong: all jobs of a living node were unlocked with its oldest, and ran twice at once.
test('leaves all jobs of a node that has taken another one lately', async () => {
  const { pool } = world.database
  await pool.query('DELETE FROM graphile_worker._private_jobs')
  await pool.query("SELECT graphile_worker.add_job('deliver_alert'), graphile_worker.add_job('prune_alerts')")
  const lock = (task: string, minutes: number) =>
    pool.query(
      `UPDATE graphile_worker._private_jobs j SET locked_by = 'one pool', locked_at = now() - $2 * interval '1 minute'
         FROM graphile_worker._private_tasks t WHERE t.id = j.task_id AND t.identifier = $1`,
      [task, minutes],
    )
  await lock('deliver_alert', 16)
  await lock('prune_alerts', 1)
  expect(await unlockAbandonedJobs(pool)).toEqual([])
  await lock('prune_alerts', 17)
  expect((await unlockAbandonedJobs(pool)).sort()).toEqual(['deliver_alert', 'prune_alerts'])
})
