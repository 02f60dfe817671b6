import { EventEmitter } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Logger, parseCronItems, run, type TaskList, type WorkerEvents } from 'graphile-worker'
import { alertTasks, DeliveryFailed } from '../alerts/alert-jobs.ts'
import type { DeliverDeps } from '../alerts/deliver-alert.ts'
import { deleteExpiredClaims } from '../chat/idempotency/delete-expired-claims.ts'
import type { Pool } from '../db/pool.ts'
import { addUsagePartitions } from '../ledger/settlement/add-usage-partitions.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import { auditLedger } from './audit-ledger.ts'
import { freeAbandonedJobs, freeJobsOf } from './free-jobs.ts'

export interface Jobs {
  /** Lets running jobs finish, then stops. Never rejects. */
  stop(): Promise<void>
}

export interface JobsDeps {
  readonly pool: Pool
  /** See AuditJobDeps. */
  readonly auditPool: Pool
  /** Made with `forQueue`: graphile-worker writes the ids of jobs as JSON, which has no bigint. */
  readonly queuePool: Pool
  readonly clock: Clock
  readonly alerts: DeliverDeps
  readonly log: Log
}

/** Before the queue is started again, and between the attempts to. */
const RESTART_MS = 5_000

const LOCK_NOT_AVAILABLE = '55P03'

/**
 * Work on a timetable. However many nodes run, graphile-worker gives each job to one of them, once. A queue that cannot write down the end of a job,
 * because PostgreSQL is away, stops by itself: it is started again when PostgreSQL is back, and then does that job once more.
 */
export async function startJobs({ pool, queuePool, auditPool, clock, alerts, log }: JobsDeps): Promise<Jobs> {
  // A fresh installation needs this month's partition before the first row, not tomorrow.
  await addUsagePartitions(pool, clock.epochMs()).catch(error => {
    if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error
    // On the first of a month one is missing, of two months later. Who reads the whole table meanwhile, for hours perhaps, keeps nobody from starting.
    log.warn(
      { err: error },
      'no partitions for usage rows can be made now, while a backup or an audit reads them: tonight',
    )
  })
  const stopping = new AbortController()
  const taskList: TaskList = {
    audit_ledger: () => auditLedger({ pool: auditPool, clock, log }, stopping.signal),
    add_usage_partitions: async () => {
      const added = await addUsagePartitions(pool, clock.epochMs())
      if (added.length > 0) log.info({ added }, 'made partitions for usage rows')
    },
    delete_expired_claims: async () => {
      await deleteExpiredClaims(pool)
    },
    free_abandoned_jobs: async () => {
      const freed = await freeAbandonedJobs(pool)
      if (freed.length > 0) log.warn({ freed }, 'took back jobs of nodes that are gone')
    },
    ...alertTasks(alerts),
  }
  let poolId = ''
  const start = async () => {
    const events: WorkerEvents = new EventEmitter()
    const ended = Promise.withResolvers<void>()
    events.on('pool:create', ({ workerPool }) => {
      poolId = workerPool.id
    })
    // Not the end of the runner: that waits for the timetable as well, which after errors sleeps for up to a minute and a half.
    events.on('pool:release', () => ended.resolve())
    const runner = await run({
      pgPool: queuePool.pg,
      events,
      // An audit may take long, and receivers of alerts may be slow.
      concurrency: 3,
      noHandleSignals: true,
      // New jobs are announced; polling finds those that wait for another attempt, and what came while PostgreSQL was away.
      pollInterval: 5_000,
      // With 0 instead of the default -1 the queue looks at what became of its note that a job has ended. By default nobody does, and when PostgreSQL
      // is away that is an unhandled rejection, which ends the process.
      preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
      taskList,
      parsedCronItems: parseCronItems([
        // One at a time in the whole cluster, and when one takes longer than five minutes, one waits and not one more every time.
        {
          task: 'audit_ledger',
          match: '*/5 * * * *',
          options: { queueName: 'audit', jobKey: 'audit_ledger', maxAttempts: 1 },
        },
        { task: 'add_usage_partitions', match: '17 3 * * *', options: { backfillPeriod: 86_400_000 } },
        { task: 'delete_expired_claims', match: '*/15 * * * *' },
        { task: 'free_abandoned_jobs', match: '*/5 * * * *' },
        { task: 'prune_alerts', match: '23 3 * * *' },
      ]),
      logger: new Logger(() => (level, message, meta) => logAt(log, level, message, meta)),
    })
    return {
      ended: ended.promise,
      stop() {
        // It rejects when the queue has stopped by itself; what is left of a shutdown has to go on all the same.
        runner.stop().catch(error => log.warn({ err: error }, 'the jobs had stopped before'))
        return ended.promise
      },
    }
  }
  let queue = await start()
  const kept = keepRunning()
  return {
    async stop() {
      stopping.abort()
      await queue.stop()
      await kept
    },
  }

  async function keepRunning(): Promise<void> {
    for (;;) {
      await queue.ended
      if (!stopping.signal.aborted) log.warn({}, 'the job queue stopped')
      do {
        await delay(RESTART_MS, undefined, { signal: stopping.signal }).catch(() => {})
        if (stopping.signal.aborted) return
      } while (!(await restarted()))
    }
  }

  async function restarted(): Promise<boolean> {
    try {
      await freeJobsOf(pool, poolId)
      queue = await start()
      // Whoever stopped the jobs meanwhile knew the one before.
      if (stopping.signal.aborted) await queue.stop()
      return true
    } catch (error) {
      log.warn({ err: error }, 'the job queue stopped and cannot be started again; trying again')
      return false
    }
  }
}

/** graphile-worker tells its comings and goings as info; for an operator of a gateway that is debug. */
function logAt(log: Log, level: string, message: string, meta: object | undefined): void {
  const facts = { jobs: true, ...meta }
  // A receiver of a customer's alerts that does not answer is that customer's to see.
  if (meta && 'error' in meta && meta.error instanceof DeliveryFailed) log.debug(facts, message)
  else if (level === 'error') log.error(facts, message)
  else if (level === 'warning') log.warn(facts, message)
  else log.debug(facts, message)
}
