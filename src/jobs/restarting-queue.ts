import { setTimeout as delay } from 'node:timers/promises'
import type { TaskList } from 'graphile-worker'
import type { Pool } from '../db/pool.ts'
import type { Log } from '../runtime/log.ts'
import { unlockJobs } from './free-jobs.ts'
import { type RunningQueue, runQueue } from './run-queue.ts'

interface RestartingQueueDeps {
  readonly pool: Pool
  readonly queuePool: Pool
  readonly taskList: TaskList
  readonly log: Log
}

/** The delay before a restart of the queue, and between attempts. */
const RESTART_MS = 5_000

/**
 * A job queue that restarts. graphile-worker stops when it cannot record the end of a job because PostgreSQL is
 * down; once PostgreSQL is back, the queue starts again and runs that job once more.
 */
export class RestartingQueue {
  readonly #deps: RestartingQueueDeps
  readonly #stopping = new AbortController()
  #poolId = ''
  #queue!: RunningQueue
  #watching!: Promise<void>

  constructor(deps: RestartingQueueDeps) {
    this.#deps = deps
  }

  /** Rejects when PostgreSQL cannot be reached. */
  async start(): Promise<void> {
    this.#queue = await this.#run()
    this.#watching = this.#watch()
  }

  /** Lets running jobs finish. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#queue.stop()
    await this.#watching
  }

  #run(): Promise<RunningQueue> {
    const { queuePool, taskList, log } = this.#deps
    const onPoolId = (poolId: string) => {
      this.#poolId = poolId
    }
    return runQueue({ queuePool, taskList, onPoolId, log })
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stopping
    for (;;) {
      await this.#queue.ended
      if (!signal.aborted) this.#deps.log.warn({}, 'the job queue stopped')
      do {
        await delay(RESTART_MS, undefined, { signal }).catch(() => {})
        if (signal.aborted) return
      } while (!(await this.#restart()))
    }
  }

  /** Returns false when the queue could not be started. */
  async #restart(): Promise<boolean> {
    const { pool, log } = this.#deps
    try {
      await unlockJobs(pool, this.#poolId)
      this.#queue = await this.#run()
      // `stop` was called during the restart and stopped only the previous queue.
      if (this.#stopping.signal.aborted) await this.#queue.stop()
      return true
    } catch (error) {
      log.warn({ err: error }, 'the job queue could not be restarted; trying again')
      return false
    }
  }
}
