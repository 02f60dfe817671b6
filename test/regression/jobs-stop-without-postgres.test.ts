import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createPool, type Pool, transaction } from '../../src/base/db/pool.ts'
import { type FaultProxy, startFaultProxy } from '../harness/fault-proxy.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useJobWorld } from '../jobs/job-world.ts'

const world = useJobWorld()

describe('the jobs stop', () => {
  let proxy: FaultProxy
  let queuePool: Pool
  beforeEach(async () => {
    proxy = await startFaultProxy(world.database.connection)
    queuePool = createPool(proxy.connection, {
      max: 3,
      applicationName: 'test queue',
      statementTimeoutMs: 1_000,
      forQueue: true,
    })
  })
  afterEach(async () => {
    vi.useRealTimers()
    await queuePool.end()
    await proxy.close()
  })

  const logged = (level: 'debug' | 'error', message: RegExp) =>
    world.log[level].mock.calls.filter(([, text]) => message.test(text)).length

  // Went wrong: the shutdown of graphile-worker waits for its polling workers, and each of them retried a hundred times,
  // minutes apart in the end (fixed in 27cd863).
  test('while PostgreSQL starts up', async () => {
    const jobs = await world.startJobs(queuePool)
    proxy.startUp()
    await vi.waitFor(
      () => expect(logged('debug', /Failed to acquire job: .* starting up/)).toBeGreaterThan(0),
      WAIT_OPTIONS,
    )
    await jobs.stop()
  })

  test('while the timetable waits up to a minute and a half for its next attempt', async () => {
    await world.database.pool.query('ALTER TABLE graphile_worker._private_known_crontabs RENAME TO gone')
    const failed = Promise.withResolvers<void>()
    world.log.error.mockImplementation((_facts, message) => /Cron hit an error/.test(message) && failed.resolve())
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const jobs = await world.startJobs(queuePool)
    await failed.promise
    await jobs.stop()
  })

  // Went wrong: the connection was released twice, which was an unhandled rejection (fixed in 27cd863).
  test('while PostgreSQL has not yet confirmed LISTEN', async () => {
    const jobs = await world.startJobs(queuePool)
    const busy = () => queuePool.pg.totalCount - queuePool.pg.idleCount + queuePool.pg.waitingCount
    await vi.waitFor(() => expect([logged('debug', /looking for jobs/), busy()]).toEqual([1, 1]), WAIT_OPTIONS)
    // The polling workers connect again too, before the listener does or after it.
    const stalled = proxy.stallAt('LISTEN "jobs:insert"')
    proxy.cutOnce()
    await stalled
    vi.clearAllMocks()
    await jobs.stop()
    await vi.waitFor(() => expect(logged('error', /attempting to UNLISTEN/)).toBe(2), WAIT_OPTIONS)
    proxy.pass()
  })

  // Went wrong: the shutdown waited for the audit, and the audit for PostgreSQL, without a limit (fixed in 294b9d4).
  // The kernel of a host that hangs can still acknowledge packets.
  test('while PostgreSQL hangs during an audit', async () => {
    const auditPool = createPool(proxy.connection, {
      max: 2,
      applicationName: 'test audit',
      statementTimeoutMs: 0,
      lockTimeoutMs: 0,
      connectTimeoutMs: 500,
    })
    const jobs = await world.startJobs(queuePool, world.database.pool, auditPool)
    await transaction(world.database.pool, async other => {
      await other.query('LOCK TABLE ledger_entry IN ACCESS EXCLUSIVE MODE')
      await world.database.pool.query("SELECT graphile_worker.add_job('audit_ledger')")
      await vi.waitFor(async () => {
        // Keeps this transaction from being ended for idling.
        await other.query('SELECT 1')
        const { rows } = await world.database.pool.query(
          "SELECT FROM pg_stat_activity WHERE application_name = 'test audit' AND wait_event_type = 'Lock' AND datname = current_database()",
        )
        expect(rows).toHaveLength(1)
      }, WAIT_OPTIONS)
      proxy.stall()
    })
    await jobs.stop()
    await auditPool.end()
  })
})
