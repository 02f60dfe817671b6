import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { addCustomer } from '../../src/accounts/customers.ts'
import { createAlertWatch } from '../../src/alerts/alert-watch.ts'
import { addRule } from '../../src/alerts/alerts.ts'
import { createMailer } from '../../src/alerts/mailer.ts'
import { createPool, type Pool, transaction } from '../../src/db/pool.ts'
import { createPinnedLookup } from '../../src/egress/pinned-lookup.ts'
import { freeAbandonedJobs } from '../../src/jobs/free-jobs.ts'
import { type Jobs, startJobs } from '../../src/jobs/start-jobs.ts'
import { openAccount } from '../../src/ledger/accounts/open-account.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemScheduler } from '../../src/runtime/scheduler.ts'
import { noSmtp } from '../alerts/alert-world.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../alerts/webhook-receiver.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { type FaultProxy, startFaultProxy } from '../harness/fault-proxy.ts'
import { WAIT_OPTIONS } from '../harness/patience.ts'

const masterKey = randomBytes(32)
const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn(), debug: vi.fn() }

let database: TestDatabase
let receiver: WebhookReceiver
beforeEach(async () => {
  database = await createTestDatabase()
  receiver = await startWebhookReceiver()
})
afterEach(async () => {
  await receiver.close()
  await database.drop()
})

/** Starts the jobs of a node whose queue uses `queuePool`. */
function jobsWith(queuePool: Pool, pool: Pool = database.pool, auditPool: Pool = database.pool): Promise<Jobs> {
  return startJobs({
    pool,
    auditPool,
    queuePool,
    clock: systemClock,
    alerts: {
      sql: database.pool,
      clock: systemClock,
      masterKey,
      mailer: createMailer(noSmtp, log),
      webhooks: { allowPrivate: true, publicLookup: createPinnedLookup() },
    },
    log,
  })
}

/** Creates a customer with a low balance and an alert for it, to be delivered by webhook. */
async function raiseAlert(): Promise<void> {
  const email = `${randomBytes(8).toString('hex')}@example.com`
  const customerId = await transaction(database.pool, async sql => {
    const { customerId } = (await addCustomer(sql, { email, accountTier: 'standard' }))!
    await openAccount(sql, customerId, 1_000_000_000n)
    return customerId
  })
  await addRule(
    database.pool,
    { customerId, email },
    { kind: 'low_balance', thresholdNanos: 5_000_000_000n, channel: 'webhook', target: receiver.url },
    { masterKey, allowPrivateUrls: true },
  )
  const caps = { byTier: new Map(), fallback: 1_000_000_000n }
  await createAlertWatch({ pool: database.pool, scheduler: systemScheduler, caps, log, everyMs: 0 }).check()
}

/** The tasks of locked jobs. */
async function taken(): Promise<string[]> {
  const { rows } = await database.pool.query<{ task: string }>(
    'SELECT task_identifier AS task FROM graphile_worker.jobs WHERE locked_at IS NOT NULL ORDER BY 1',
  )
  return rows.map(({ task }) => task)
}

// A bug: the rejected statement that recorded the end of a job was unhandled, which ended the process.
test('a job that ends while PostgreSQL is down does not end the process, and the queue continues afterwards', async () => {
  const proxy: FaultProxy = await startFaultProxy(database.connection)
  const queuePool = createPool(proxy.connection, { max: 3, applicationName: 'test queue', forQueue: true })
  const jobs = await jobsWith(queuePool)
  try {
    const asked = Promise.withResolvers<() => void>()
    receiver.answerWith(response => asked.resolve(() => response.writeHead(204).end()))
    await raiseAlert()
    const answer = await asked.promise
    proxy.cut()
    answer()
    await vi.waitFor(
      () => expect(log.error).toHaveBeenCalledWith(expect.anything(), expect.stringMatching(/Failed to .* jobs/)),
      WAIT_OPTIONS,
    )
    // The scheduled audit may be locked too.
    expect(await taken()).toContain('deliver_alert')
    proxy.pass()
    await vi.waitFor(async () => expect(await taken()).toEqual([]), WAIT_OPTIONS)
    await raiseAlert()
    const all = await receiver.arrived(2)
    expect(new Set(all.map(({ headers }) => headers['webhook-id'])).size).toBe(2)
  } finally {
    await jobs.stop()
    await queuePool.end()
    await proxy.close()
  }
})

// A bug: on the first day of a month no gateway could start until a running dump had ended.
test('a gateway starts while a backup reads the usage rows', async () => {
  const queuePool = createPool(database.connection, { max: 3, applicationName: 'test queue', forQueue: true })
  const pool = createPool(database.connection, { max: 3, applicationName: 'test jobs', lockTimeoutMs: 50 })
  const partitions = async () => {
    const { rows } = await pool.query(`SELECT FROM pg_inherits WHERE inhparent = 'usage_event'::regclass`)
    return rows.length
  }
  await transaction(database.pool, async backup => {
    await backup.query('LOCK TABLE usage_event IN ACCESS SHARE MODE')
    const jobs = await jobsWith(queuePool, pool)
    expect(log.warn).toHaveBeenCalledWith(
      { err: expect.objectContaining({ message: expect.stringContaining('lock timeout') }) },
      expect.stringContaining('no partitions'),
    )
    await jobs.stop()
  })
  expect(await partitions()).toBe(1)
  const jobs = await jobsWith(queuePool, pool)
  expect(await partitions()).toBe(4)
  await jobs.stop()
  await Promise.all([queuePool.end(), pool.end()])
})

describe('the jobs stop', () => {
  let proxy: FaultProxy
  let queuePool: Pool
  beforeEach(async () => {
    vi.clearAllMocks()
    proxy = await startFaultProxy(database.connection)
    queuePool = createPool(proxy.connection, {
      max: 3,
      applicationName: 'test queue',
      statementTimeoutMs: 50,
      forQueue: true,
    })
  })
  afterEach(async () => {
    vi.useRealTimers()
    log.error.mockReset()
    await queuePool.end()
    await proxy.close()
  })

  const logged = (level: 'debug' | 'error', message: RegExp) =>
    log[level].mock.calls.filter(([, text]) => message.test(text)).length

  // The shutdown of graphile-worker waits for its polling workers. A bug: each of them retried a hundred times,
  // minutes apart in the end.
  test('while PostgreSQL starts up', async () => {
    const jobs = await jobsWith(queuePool)
    proxy.startUp()
    await vi.waitFor(
      () => expect(logged('debug', /Failed to acquire job: .* starting up/)).toBeGreaterThan(0),
      WAIT_OPTIONS,
    )
    await jobs.stop()
  })

  test('while the timetable waits up to a minute and a half for its next attempt', async () => {
    await database.pool.query('ALTER TABLE graphile_worker._private_known_crontabs RENAME TO gone')
    const failed = Promise.withResolvers<void>()
    log.error.mockImplementation((_facts, message) => /Cron hit an error/.test(message) && failed.resolve())
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const jobs = await jobsWith(queuePool)
    await failed.promise
    await jobs.stop()
  })

  // A bug: the connection was released twice, which was an unhandled rejection.
  test('while PostgreSQL has not yet confirmed LISTEN', async () => {
    const jobs = await jobsWith(queuePool)
    const busy = () => queuePool.pg.totalCount - queuePool.pg.idleCount + queuePool.pg.waitingCount
    await vi.waitFor(() => expect([logged('debug', /looking for jobs/), busy()]).toEqual([1, 1]), WAIT_OPTIONS)
    // The first new connection is the listener's; the polling workers connect every five seconds.
    const stalled = new Promise<void>(resolve => {
      queuePool.pg.once('connect', () => {
        proxy.stall()
        resolve()
      })
    })
    proxy.cutOnce()
    await stalled
    vi.clearAllMocks()
    await jobs.stop()
    await vi.waitFor(() => expect(logged('error', /attempting to UNLISTEN/)).toBe(2), WAIT_OPTIONS)
    proxy.pass()
  })

  // A bug: the shutdown waited for the audit, and the audit for PostgreSQL, without a limit. The kernel of a
  // host that hangs can still acknowledge packets.
  test('while PostgreSQL hangs during an audit', async () => {
    const auditPool = createPool(proxy.connection, {
      max: 2,
      applicationName: 'test audit',
      statementTimeoutMs: 0,
      lockTimeoutMs: 0,
      connectTimeoutMs: 500,
    })
    const jobs = await jobsWith(queuePool, database.pool, auditPool)
    await transaction(database.pool, async other => {
      await other.query('LOCK TABLE ledger_entry IN ACCESS EXCLUSIVE MODE')
      await database.pool.query("SELECT graphile_worker.add_job('audit_ledger')")
      await vi.waitFor(async () => {
        // Keeps this transaction from being ended for idling.
        await other.query('SELECT 1')
        const { rows } = await database.pool.query(
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

test('takes back jobs of a dead node, and an audit once its session has ended', async () => {
  const { pool } = database
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
  const auditPool = createPool(database.connection, { max: 1, applicationName: 'switchyard audit' })
  const audit = Promise.withResolvers<void>()
  const auditing = transaction(auditPool, () => audit.promise)
  await vi.waitFor(async () => {
    const { rows } = await pool.query(
      "SELECT FROM pg_stat_activity WHERE application_name = 'switchyard audit' AND state <> 'idle' AND datname = current_database()",
    )
    expect(rows).toHaveLength(1)
  }, WAIT_OPTIONS)
  expect(await freeAbandonedJobs(pool)).toEqual(['deliver_alert'])
  audit.resolve()
  await auditing
  await auditPool.end()
  await vi.waitFor(async () => expect(await freeAbandonedJobs(pool)).toEqual(['audit_ledger']), WAIT_OPTIONS)
  expect(await taken()).toEqual(['prune_alerts'])
  const { rows } = await pool.query('SELECT FROM graphile_worker._private_job_queues WHERE locked_at IS NOT NULL')
  expect(rows).toEqual([])
})
