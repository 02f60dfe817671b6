import { EventEmitter } from 'node:events'
import { Logger, parseCronItems, run, type TaskList, type WorkerEvents } from 'graphile-worker'
import { DeliveryFailed } from '../alerts/alert-jobs.ts'
import type { Pool } from '../db/pool.ts'
import type { Log } from '../runtime/log.ts'
import { timetable } from './create-tasks.ts'

/** One run of the job queue. */
export interface RunningQueue {
  /** Resolves when the queue has stopped and its jobs have ended. */
  readonly ended: Promise<void>
  /** Lets running jobs finish. Resolves with `ended`; never rejects. */
  stop(): Promise<void>
}

export interface QueueOptions {
  readonly queuePool: Pool
  readonly taskList: TaskList
  /** Receives the id under which graphile-worker locks the jobs of this run. */
  readonly onPoolId: (poolId: string) => void
  readonly log: Log
}

/** Starts graphile-worker. Rejects when PostgreSQL cannot be reached. */
export async function runQueue({ queuePool, taskList, onPoolId, log }: QueueOptions): Promise<RunningQueue> {
  const events: WorkerEvents = new EventEmitter()
  const ended = Promise.withResolvers<void>()
  events.on('pool:create', ({ workerPool }) => onPoolId(workerPool.id))
  // The runner's promise would also wait for the timetable, which sleeps for up to a minute and a half after
  // errors.
  events.on('pool:release', () => ended.resolve())
  const runner = await run({
    pgPool: queuePool.pg,
    events,
    // An audit may take long, and webhook receivers may be slow.
    concurrency: 3,
    noHandleSignals: true,
    // PostgreSQL announces new jobs. Polling finds jobs that wait for a retry, and jobs announced while
    // PostgreSQL was down.
    pollInterval: 5_000,
    // 0 instead of the default -1 makes the queue handle errors of the statement that records the end of a job.
    // With -1, when PostgreSQL is down, that error is an unhandled rejection, which ends the process.
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    taskList,
    parsedCronItems: parseCronItems(timetable),
    logger: new Logger(() => (level, message, meta) => writeLog(log, level, message, meta)),
  })
  return {
    ended: ended.promise,
    stop() {
      // Rejects when the queue has already stopped because of an error. The shutdown must continue.
      runner.stop().catch(error => log.warn({ err: error }, 'the job queue had already stopped'))
      return ended.promise
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
