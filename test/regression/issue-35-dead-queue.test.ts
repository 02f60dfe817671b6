import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createPool, type Pool, transaction } from '../../src/base/db/pool.ts'
import { RestartingQueue } from '../../src/jobs/restarting-queue.ts'
import { type FaultProxy, startFaultProxy } from '../harness/fault-proxy.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useJobWorld } from '../jobs/job-world.ts'

// Went wrong: graphile-worker 0.18.0 has states that it never leaves, in which a node ran no job until it was restarted.
// docs/decisions/2026-11-28-job-queue-restarts.md describes them.
const world = useJobWorld()

/** Returns the tasks of the jobs that these tests add and that have not ended. */
async function waitingTasks(): Promise<string> {
  const { rows } = await world.database.pool.query<{ tasks: string | null }>(
    "SELECT string_agg(task_identifier, ' ' ORDER BY id) AS tasks FROM graphile_worker.jobs WHERE task_identifier ~ '^(.|prune_alerts)$'",
  )
  return rows[0]!.tasks ?? ''
}

const addJob = (task: string, runAt = 'now()') =>
  world.database.pool.query(`SELECT graphile_worker.add_job($1, run_at := ${runAt})`, [task])

const logged = (level: 'debug' | 'error', message: RegExp) =>
  world.log[level].mock.calls.filter(([, text]) => message.test(text)).length

describe('jobs run again', () => {
  let proxy: FaultProxy
  let queuePool: Pool
  /** Stopped after the test. */
  let queue: Pick<RestartingQueue, 'stop'> | undefined
  beforeEach(async () => {
    queue = undefined
    proxy = await startFaultProxy(world.database.connection)
    queuePool = createPool(proxy.connection, {
      max: 3,
      applicationName: 'test queue',
      connectTimeoutMs: 3_000,
      statementTimeoutMs: 3_000,
      lockTimeoutMs: 500,
      forQueue: true,
    })
  })
  afterEach(async () => {
    proxy.pass()
    await queue?.stop()
    await queuePool.end()
    await proxy.close()
  })

  test('after a stall in which the first search failed', async () => {
    world.log.debug.mockImplementation((_facts, message) => message === 'Spawned' && proxy.stall())
    queue = await world.startJobs(queuePool)
    await vi.waitFor(() => expect(logged('debug', /Failed to acquire job/)).toBeGreaterThan(0), WAIT_OPTIONS)
    world.log.debug.mockReset()
    proxy.pass()
    await world.raiseAlert()
    expect(await world.receiver.arrived(1)).toHaveLength(1)
    expect(world.onQueueRestart).toHaveBeenCalled()
    expect(logged('error', /the job queue gets no jobs/)).toBeGreaterThan(0)
  })

  /** Starts a queue with these tasks. Each job runs until the test calls its function in `ends`. */
  async function startQueue(...names: string[]): Promise<Map<string, () => void>> {
    const ends = new Map<string, () => void>()
    const tasks = names.map(name => [name, () => new Promise<void>(resolve => ends.set(name, resolve))])
    const restarting = new RestartingQueue({
      ...{ pool: world.database.pool, queuePool, taskList: Object.fromEntries(tasks), log: world.log },
      onRestart: world.onQueueRestart,
      onJobFailure: () => {},
      pollMs: 100,
    })
    await restarting.start()
    queue = restarting
    return ends
  }

  test('when the answer with a job was lost', async () => {
    const ends = await startQueue('a', 'b')
    await addJob('a')
    await vi.waitFor(() => expect(ends.has('a')).toBe(true), WAIT_OPTIONS)
    // The same run has got this job, too, and does not know.
    await transaction(world.database.pool, async sql => {
      await sql.query("SELECT graphile_worker.add_job('b')")
      await sql.query(
        `UPDATE graphile_worker._private_jobs SET locked_at = now(), attempts = 1,
           locked_by = (SELECT locked_by FROM graphile_worker.jobs WHERE task_identifier = 'a')
         WHERE id = (SELECT id FROM graphile_worker.jobs WHERE task_identifier = 'b')`,
      )
    })
    proxy.stall()
    await vi.waitFor(() => expect(logged('debug', /Failed to acquire job/)).toBeGreaterThan(0), WAIT_OPTIONS)
    proxy.pass()
    await vi.waitFor(() => expect(world.onQueueRestart).toHaveBeenCalled(), WAIT_OPTIONS)
    // Until the running job has ended, the old run keeps its locks, so that no job runs twice.
    expect([...ends.keys()]).toEqual(['a'])
    ends.get('a')!()
    ends.delete('a')
    await vi.waitFor(() => expect(ends.has('b')).toBe(true), WAIT_OPTIONS)
    expect(ends.has('a')).toBe(false)
    ends.get('b')!()
    await vi.waitFor(async () => expect(await waitingTasks()).toBe(''), WAIT_OPTIONS)
  })

  test('when the ids of the tasks have changed, as after a restore', async () => {
    queue = await world.startJobs(queuePool)
    await addJob('prune_alerts')
    await vi.waitFor(async () => expect(await waitingTasks()).toBe(''), WAIT_OPTIONS)
    await transaction(world.database.pool, async sql => {
      await sql.query('DELETE FROM graphile_worker._private_jobs')
      await sql.query('DELETE FROM graphile_worker._private_tasks')
    })
    await addJob('prune_alerts', "now() - interval '1 minute'")
    await vi.waitFor(async () => expect(await waitingTasks()).toBe(''), WAIT_OPTIONS)
    expect(logged('error', /the job queue gets no jobs/)).toBeGreaterThan(0)
  })

  test('when the end of a job could not be recorded while three others ran', async () => {
    const ends = await startQueue('a', 'b', 'c', 'd', 'e')
    for (const task of ['a', 'b', 'c']) await addJob(task)
    await vi.waitFor(() => expect([...ends.keys()].toSorted()).toEqual(['a', 'b', 'c']), WAIT_OPTIONS)
    await addJob('d')
    await transaction(world.database.pool, async sql => {
      await sql.query(
        "SELECT FROM graphile_worker._private_jobs WHERE id = (SELECT min(id) FROM graphile_worker.jobs WHERE task_identifier = 'a') FOR UPDATE",
      )
      ends.get('a')!()
      await vi.waitFor(() => expect(world.onQueueRestart).toHaveBeenCalled(), WAIT_OPTIONS)
    })
    await vi.waitFor(() => expect(ends.has('d')).toBe(true), WAIT_OPTIONS)
    for (const [task, left] of [
      ['b', 'a c d'],
      ['c', 'a d'],
      ['d', 'a'],
    ] as const) {
      ends.get(task)!()
      await vi.waitFor(async () => expect(await waitingTasks()).toBe(left), WAIT_OPTIONS)
    }
    await addJob('e')
    // Without its end, the first job runs once more.
    ends.delete('a')
    await vi.waitFor(() => expect([ends.has('a'), ends.has('e')]).toEqual([true, true]), WAIT_OPTIONS)
    ends.get('a')!()
    ends.get('e')!()
    await vi.waitFor(async () => expect(await waitingTasks()).toBe(''), WAIT_OPTIONS)
  })
})
