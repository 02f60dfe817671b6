import { expect, test, vi } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { readLateJob } from '../../src/operator/late-job.ts'
import { readSystem } from '../../src/operator/system.ts'
import { noteTimetable, noteTimetableRun } from '../../src/operator/timetable-runs.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useJobWorld } from './job-world.ts'

const world = useJobWorld()
const lastRuns = async () => {
  const { jobs } = await readSystem(world.database.pool, {
    version: '',
    settings: [],
    rules: { backupHours: 0, schedules: [] },
    nowMs: Date.now(),
  })
  return Object.fromEntries(jobs.map(({ name, last_run_at }) => [name, last_run_at]))
}

test('the minutes in which the timetable adds jobs are noted as the queue reports them', async () => {
  const { pool, connection } = world.database
  // A node that comes back after a day runs the nightly job that it has missed.
  await pool.query(`INSERT INTO graphile_worker._private_known_crontabs (identifier, known_since, last_execution)
    VALUES ('add_usage_partitions', now() - interval '3 days', now() - interval '2 days')
    ON CONFLICT (identifier) DO UPDATE SET known_since = excluded.known_since, last_execution = excluded.last_execution`)
  const queuePool = createPool(connection, { max: 6, applicationName: 'queue', forQueue: true })
  const jobs = await world.startJobs(queuePool)
  await vi.waitFor(
    async () => expect((await lastRuns()).add_usage_partitions).toMatch(/T03:17:00\.000Z$/),
    WAIT_OPTIONS,
  )
  await jobs.stop()
  await queuePool.end()
})

test('a timetable is late when a minute has passed without a run, or, before its first one, since it began', async () => {
  const { pool } = world.database
  const ago = (ms: number) => new Date(Date.now() - ms)
  expect(await readLateJob(pool)).toBeUndefined()
  await noteTimetable(pool, ['score_hosters', 'write_trust_days'], ago(600_000))
  await noteTimetable(pool, ['score_hosters', 'write_trust_days'], ago(0))
  expect(await readLateJob(pool)).toMatchObject({ task: null, lateS: expect.closeTo(540, -2) })
  await noteTimetableRun(pool, ['prune_alerts', 'score_hosters'], ago(300_000))
  expect(await readLateJob(pool)).toMatchObject({ task: null, lateS: expect.closeTo(240, -2) })
  await noteTimetable(pool, ['score_hosters'], ago(0))
  expect(await readLateJob(pool)).toMatchObject({ task: null, lateS: expect.closeTo(240, -2) })
  const at = ago(1_000)
  await noteTimetableRun(pool, ['score_hosters'], at)
  expect(await readLateJob(pool)).toBeUndefined()
  expect(await lastRuns()).toMatchObject({
    score_hosters: at.toISOString(),
    prune_alerts: expect.any(String),
    write_trust_days: null,
  })
})
