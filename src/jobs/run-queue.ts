import { EventEmitter, once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Logger, parseCronItems, run, type TaskList, type Worker, type WorkerEvents } from 'graphile-worker'
import type { Pool, Sql } from '../base/db/pool.ts'
import type { Log } from '../base/runtime/log.ts'
import { DeliveryFailed } from '../money/alerts/alert-jobs.ts'
import { noteTimetable, noteTimetableRun } from '../operator/timetable-runs.ts'
import { timetable } from './create-tasks.ts'
import { showPoolLives } from './unlock-jobs.ts'

/** One run of graphile-worker. It may get stuck, so `RestartingQueue` watches it. */
export interface RunningQueue {
  /** The id under which graphile-worker locks the jobs of this run. */
  readonly poolId: string
  /** The first error of a search for a job, or why the run has stopped by itself. */
  readonly fault: Error | undefined
  /** Whether every worker runs a job, so that none searches. */
  readonly isBusy: boolean
  /** How many searches have found a job or none. */
  readonly searches: number
  /** How many searches have found none. */
  readonly emptySearches: number
  /** Takes no more jobs. Resolves when the running ones have ended and their ends are recorded; never rejects. */
  stop(): Promise<void>
}

export interface QueueOptions {
  /** For what the gateway notes of the queue. */
  readonly sql: Sql
  readonly queuePool: Pool
  readonly taskList: TaskList
  readonly onJobFailure: (task: string) => void
  /** PostgreSQL announces new jobs. Polling finds jobs that wait for a retry, and jobs announced during an outage. */
  readonly pollMs: number
  readonly log: Log
}

/** An audit may take long, and webhook receivers may be slow. */
const WORKERS = 3

/** Within three polls, 15 s, a job's end is recorded or lost: 5 s for a connection and 6 for the answer. */
const POLLS_TO_RECORD = 3

/** Starts graphile-worker. Rejects when PostgreSQL cannot be reached. */
export async function runQueue({
  sql,
  queuePool,
  taskList,
  onJobFailure,
  pollMs,
  log,
}: QueueOptions): Promise<RunningQueue> {
  const events: WorkerEvents = new EventEmitter()
  noteTimetableRuns(events, sql, log)
  events.on('job:error', ({ job }) => onJobFailure(job.task_identifier))
  // On the connection that listens for jobs: graphile-worker keeps one for each run, and makes a new one when it is lost.
  events.on('pool:listen:success', ({ workerPool, client }) => {
    showPoolLives(client, workerPool.id).catch(error => log.debug({ err: error }, 'the job queue listens again later'))
  })
  const watch = watchRun(events, pollMs)
  const runner = await run({
    pgPool: queuePool.pg,
    events,
    concurrency: WORKERS,
    noHandleSignals: true,
    pollInterval: pollMs,
    // 0 instead of the default -1 makes the queue handle errors of the statement that records the end of a job.
    // With -1, when PostgreSQL is down, that error is an unhandled rejection, which ends the process.
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    taskList,
    parsedCronItems: parseCronItems(timetable),
    logger: new Logger(() => (level, message, meta) => writeLog(log, level, message, meta)),
  })
  return Object.assign(watch, {
    stop() {
      // Rejects when the queue has already stopped because of an error.
      runner.stop().catch(error => log.debug({ err: error }, 'the job queue had already stopped'))
      return watch.jobsEnded()
    },
  })
}

/** Notes each minute in which the timetable adds jobs. */
function noteTimetableRuns(events: WorkerEvents, sql: Sql, log: Log): void {
  const note = (work: Promise<void>) =>
    void work.catch(error => log.debug({ err: error }, 'a run of the timetable could not be noted'))
  const noteRun = (jobs: readonly { readonly job: { readonly task: string } }[], at: Date) =>
    note(
      noteTimetableRun(
        sql,
        jobs.map(({ job }) => job.task),
        at,
      ),
    )
  events.on('cron:started', ({ start }) =>
    note(
      noteTimetable(
        sql,
        timetable.map(({ task }) => task),
        start,
      ),
    ),
  )
  events.on('cron:scheduled', ({ jobsAndIdentifiers, timestamp }) => noteRun(jobsAndIdentifiers, new Date(timestamp)))
  events.on('cron:backfill', ({ itemsToBackfill, timestamp }) => noteRun(itemsToBackfill, new Date(timestamp)))
}

/** Follows a run by its events. */
function watchRun(events: WorkerEvents, pollMs: number) {
  const workers: Worker[] = []
  let poolId = ''
  let fault: Error | undefined
  let searches = 0
  let emptySearches = 0
  let isReleased = false
  const released = once(events, 'pool:release').then(() => {
    isReleased = true
  })
  events.on('pool:create', ({ workerPool }) => {
    poolId = workerPool.id
  })
  events.on('worker:create', ({ worker }) => workers.push(worker))
  events.on('pool:gracefulShutdown', ({ message }) => {
    fault ??= new Error(message)
  })
  events.on('worker:getJob:error', ({ error }) => {
    fault ??= error as Error
  })
  events.on('worker:getJob:empty', () => {
    searches++
    emptySearches++
  })
  events.on('job:start', () => {
    searches++
  })
  return {
    get poolId() {
      return poolId
    },
    get fault() {
      return fault
    },
    get isBusy() {
      return workers.every(worker => worker.getActiveJob() !== null)
    },
    get searches() {
      return searches
    },
    get emptySearches() {
      return emptySearches
    },
    /**
     * The promise of the runner would also wait for the timetable, which sleeps for up to a minute and a half after
     * errors. The event `pool:release` can be missing: docs/decisions/2026-11-28-job-queue-restarts.md.
     */
    async jobsEnded() {
      const ended = new AbortController()
      const { signal } = ended
      for (let idlePolls = 0; !isReleased && idlePolls < POLLS_TO_RECORD; ) {
        await Promise.race([released, delay(pollMs, undefined, { signal }).catch(() => {})])
        idlePolls = workers.some(worker => worker.getActiveJob() !== null) ? 0 : idlePolls + 1
      }
      ended.abort()
    },
  }
}

/** Lowers info to debug: graphile-worker logs each start and end of its workers as info. */
function writeLog(log: Log, level: string, message: string, meta: object | undefined): void {
  const fields = { jobs: true, ...meta }
  // A webhook receiver that does not answer concerns its customer, not the operator.
  if (meta && 'error' in meta && meta.error instanceof DeliveryFailed) log.debug(fields, message)
  else if (level === 'error') log.error(fields, message)
  else if (level === 'warning') log.warn(fields, message)
  else log.debug(fields, message)
}
