import { setTimeout as delay } from 'node:timers/promises'
import type { TaskList } from 'graphile-worker'
import { type Pool, type Sql, withQueryTimeout } from '../base/db/pool.ts'
import type { Log } from '../base/runtime/log.ts'
import { readLateJob } from '../operator/late-job.ts'
import { type RunningQueue, runQueue } from './run-queue.ts'
import { unlockJobs } from './unlock-jobs.ts'

export interface RestartingQueueDeps {
  readonly pool: Pool
  readonly queuePool: Pool
  readonly taskList: TaskList
  /** Called after each restart. */
  readonly onRestart: () => void
  readonly onJobFailure: (task: string) => void
  readonly log: Log
  /** How often the queue searches for jobs, and how often it is checked. Default 5,000. */
  readonly pollMs?: number | undefined
}

const POLL_MS = 5_000

/** A check that hangs would delay the next one, and the shutdown. */
const QUERY_MS = 2_000

/** A working queue searches at least once between two checks, unless the process was paused. */
const SILENT_CHECKS_MAX = 3

/** A free worker that searches in vain while a job has been due for this long does not know all its tasks. */
const OVERLOOKED_S = 30

/** While PostgreSQL is away, a failed restart is logged the first time and then every minute. */
const LOG_EVERY_ATTEMPTS = 12

/**
 * A job queue that restarts. A run of graphile-worker can stop, or keep failing without an end, even when PostgreSQL is
 * back: docs/decisions/2026-11-28-job-queue-restarts.md. So a run with any fault is replaced by a new one, which
 * shares nothing with it but the pool. The old run ends its jobs; then what it still holds locked is freed.
 */
export class RestartingQueue {
  readonly #deps: RestartingQueueDeps
  readonly #sql: Sql
  readonly #pollMs: number
  readonly #stopping = new AbortController()
  readonly #replaced = new Set<Promise<void>>()
  #queue!: RunningQueue
  #watching!: Promise<void>
  /** The counts of `#queue` at the last check. */
  #seen = { searches: 0, emptySearches: 0 }
  #silentChecks = 0

  constructor(deps: RestartingQueueDeps) {
    this.#deps = deps
    this.#sql = withQueryTimeout(deps.pool, QUERY_MS)
    this.#pollMs = deps.pollMs ?? POLL_MS
  }

  /** Rejects when PostgreSQL cannot be reached. */
  async start(): Promise<void> {
    this.#queue = await this.#run()
    this.#watching = this.#watch()
  }

  /** Lets running jobs finish. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#watching
    await Promise.all([this.#queue.stop(), ...this.#replaced])
  }

  #run(): Promise<RunningQueue> {
    const { queuePool, taskList, onJobFailure, log } = this.#deps
    return runQueue({ sql: this.#sql, queuePool, taskList, onJobFailure, pollMs: this.#pollMs, log })
  }

  async #watch(): Promise<void> {
    while (await this.#pause()) {
      const fault = await this.#findFault()
      if (fault === undefined) continue
      this.#deps.log.error({ err: fault }, 'the job queue gets no jobs; starting it again')
      await this.#restart()
    }
  }

  /** Waits until the next check. Returns false when the queue must stop. */
  async #pause(): Promise<boolean> {
    const { signal } = this.#stopping
    await delay(this.#pollMs, undefined, { signal }).catch(() => {})
    return !signal.aborted
  }

  async #findFault(): Promise<Error | undefined> {
    const { fault, isBusy, searches, emptySearches } = this.#queue
    const before = this.#seen
    this.#seen = { searches, emptySearches }
    this.#silentChecks = isBusy || searches > before.searches ? 0 : this.#silentChecks + 1
    if (fault !== undefined) return fault
    if (this.#silentChecks >= SILENT_CHECKS_MAX) return new Error('no worker of the queue searches for jobs')
    return emptySearches > before.emptySearches ? this.#findOverlooked() : undefined
  }

  async #findOverlooked(): Promise<Error | undefined> {
    const { taskList } = this.#deps
    const late = await readLateJob(this.#sql).catch(() => undefined)
    if (late === undefined || late.task === null || !(late.task in taskList) || late.lateS < OVERLOOKED_S) return
    return new Error(`the queue finds no job although ${late.task} has been due for ${Math.round(late.lateS)} s`)
  }

  /** Tries until a new run has started, or until the queue must stop. */
  async #restart(): Promise<void> {
    const { log, onRestart } = this.#deps
    for (let attempt = 0; ; attempt++) {
      try {
        const started = await this.#run()
        this.#retire(this.#queue)
        this.#queue = started
        this.#seen = { searches: 0, emptySearches: 0 }
        this.#silentChecks = 0
        onRestart()
        log.info({}, 'the job queue has started again')
        return
      } catch (error) {
        if (attempt % LOG_EVERY_ATTEMPTS === 0)
          log.warn({ err: error }, 'the job queue could not be started again; trying every few seconds')
      }
      if (!(await this.#pause())) return
    }
  }

  #retire(queue: RunningQueue): void {
    const retired = this.#endAndUnlock(queue).finally(() => this.#replaced.delete(retired))
    this.#replaced.add(retired)
  }

  /** A stopped run still holds a job locked if the answer with the job, or its end, was lost on the way. */
  async #endAndUnlock(queue: RunningQueue): Promise<void> {
    await queue.stop()
    do {
      try {
        await unlockJobs(this.#sql, queue.poolId)
        return
      } catch (error) {
        this.#deps.log.debug({ err: error }, 'the jobs of a stopped queue could not be unlocked; trying again')
      }
    } while (await this.#pause())
  }
}
