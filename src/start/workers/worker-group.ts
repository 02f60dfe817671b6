import type { ConfigReload } from '../../base/domain/config-reload.ts'
import { errorMessage } from '../../base/runtime/error-message.ts'
import type { Log } from '../../base/runtime/log.ts'
import { closePort } from './connection-handoff.ts'
import { type CrashLimit, createCrashLimit } from './crash-limit.ts'
import { drainWorkers } from './drain-workers.ts'
import { WorkerMetrics } from './worker-metrics.ts'
import { forkWorker, type WorkerEnd, type WorkerListener, type WorkerProcess } from './worker-process.ts'

export interface WorkersOptions<Task> {
  readonly count: number
  /** The program of a worker; it calls `connectToPrimary`. */
  readonly program: URL
  /**
   * Returns the task of a worker. `first` is true until one worker has served. Until then no other worker
   * runs, so that this one can clean up after earlier processes. Several workers starting together could
   * mistake each other for earlier processes.
   */
  readonly task: (facts: { number: number; first: boolean }) => Task
  /** How long a worker may drain, ms. */
  readonly drainMs: number
  /** Reads the configuration again, for a worker. */
  readonly reload?: () => Promise<ConfigReload>
  readonly log: Pick<Log, 'info' | 'error'>
}

/** The delay before another start of a worker that could not start, while others serve. */
const RETRY_START_MS = 5_000

/** Starts the workers, replaces those that crash, and stops them together. */
export class WorkerGroup<Task> {
  readonly #options: WorkersOptions<Task>
  readonly #running = new Map<number, WorkerProcess<Task>>()
  readonly #crashes: CrashLimit
  readonly #metrics = new WorkerMetrics(() => this.#serving)
  readonly #port = Promise.withResolvers<number>()
  readonly #broken = Promise.withResolvers<never>()
  readonly #scheduledStarts = new Set<NodeJS.Timeout>()
  #hasEverServed = false
  #isClosing = false
  #stopped: Promise<number> | undefined

  constructor(options: WorkersOptions<Task>) {
    this.#options = options
    this.#crashes = createCrashLimit({ workers: options.count })
    // The caller may await only one of the two promises. The other must not end the process as an unhandled
    // rejection.
    this.#port.promise.catch(() => {})
    this.#broken.promise.catch(() => {})
  }

  get port(): Promise<number> {
    return this.#port.promise
  }

  get broken(): Promise<never> {
    return this.#broken.promise
  }

  /** Sends the current tasks to the workers that have one. */
  updateTasks(): void {
    for (const worker of this.#running.values())
      worker.send({ kind: 'update', task: this.#options.task({ number: worker.number, first: false }) })
  }

  metricsText(): Promise<string> {
    return this.#metrics.text()
  }

  async start(): Promise<void> {
    const port = await this.#startWorker(1)
    if (port === undefined) return
    const { count } = this.#options
    await Promise.all(Array.from({ length: count - 1 }, (_, index) => this.#startWorker(index + 2)))
    this.#port.resolve(port)
  }

  announceClose(): void {
    this.#isClosing = true
    for (const worker of this.#running.values()) worker.send({ kind: 'announceClose' })
  }

  stop(force: AbortSignal): Promise<number> {
    this.#stopped ??= this.#drain(force)
    return this.#stopped
  }

  #drain(force: AbortSignal): Promise<number> {
    for (const timer of this.#scheduledStarts) clearTimeout(timer)
    const { drainMs, log } = this.#options
    return drainWorkers({
      running: () => [...this.#running.values()],
      closePort: () => this.#closePort(),
      drainMs,
      force,
      log,
    })
  }

  get #serving(): WorkerProcess<Task>[] {
    return [...this.#running.values()].filter(worker => worker.isServing)
  }

  /** Resolves with the port when the worker serves, or with undefined when it ends first. */
  async #startWorker(number: number): Promise<number | undefined> {
    const worker = forkWorker(number, this.#listener)
    if (worker instanceof Error) {
      this.#retryStart(number, { worker: number }, worker.message)
      return undefined
    }
    this.#running.set(number, worker)
    return await worker.port
  }

  readonly #listener: WorkerListener<Task> = {
    onReady: worker => {
      const { number } = worker
      worker.send({ kind: 'task', task: this.#options.task({ number, first: !this.#hasEverServed }) })
      // Messages that were sent before the worker listened are lost.
      if (this.#isClosing) worker.send({ kind: 'announceClose' })
      if (this.#stopped) worker.send({ kind: 'drain' })
    },
    onServing: ({ number, pid }) => {
      this.#hasEverServed = true
      this.#options.log.info({ worker: number, pid }, 'a worker is serving')
    },
    onDrained: () => this.#closePortWhenDrained(),
    onSample: ({ number }, sample) => this.#metrics.update(number, sample),
    onReload: async () => {
      try {
        return (await this.#options.reload?.()) ?? { problem: 'this gateway does not read its configuration again' }
      } catch (error) {
        this.#options.log.error({ err: error }, 'the configuration was not read')
        return { problem: errorMessage(error) }
      }
    },
    onUnreachable: ({ number }, error) =>
      this.#options.log.error({ worker: number, err: error }, 'a message could not be sent to a worker'),
    onEnd: (worker, end) => this.#onEnd(worker, end),
  }

  #onEnd(worker: WorkerProcess<Task>, { isClean, logFields, reason }: WorkerEnd): void {
    const { number, isServing } = worker
    this.#running.delete(number)
    this.#metrics.retire(number)
    if (this.#stopped) {
      if (!isClean) this.#options.log.error({ ...logFields, reason }, 'a worker did not shut down cleanly')
      this.#closePortWhenDrained()
    } else if (isServing) this.#replaceCrashed(number, logFields)
    else this.#retryStart(number, logFields, reason)
  }

  #replaceCrashed(number: number, logFields: object): void {
    this.#metrics.countCrash()
    const delayMs = this.#crashes.crashed(number, performance.now())
    this.#options.log.error({ ...logFields, delayMs }, 'a worker crashed; the requests that it was serving are free')
    if (delayMs !== null) this.#startLater(number, delayMs)
    else this.#giveUp('The workers keep crashing, so the gateway stops. Their errors are in the log above.')
  }

  #retryStart(number: number, logFields: object, reason: string | undefined): void {
    this.#options.log.error({ ...logFields, reason }, 'a worker could not start')
    // While others serve, the cause may pass, for example when the database is down. When none serves, the
    // operator must act.
    if (this.#serving.length > 0) this.#startLater(number, RETRY_START_MS)
    else this.#giveUp(reason ?? 'A worker ended before it could serve. Its errors are in the log above.')
  }

  #startLater(number: number, delayMs: number): void {
    const timer = setTimeout(() => {
      this.#scheduledStarts.delete(timer)
      this.#startWorker(number)
    }, delayMs)
    this.#scheduledStarts.add(timer)
  }

  #giveUp(reason: string): void {
    this.#port.reject(new Error(reason))
    this.#broken.reject(new Error(reason))
  }

  /**
   * The port stays open until the last worker stops listening, and a proxy that can still connect keeps using its
   * open connections. A worker that closed its connections early could lose a request that is on its way, so all
   * workers close their connections together.
   */
  #closePortWhenDrained(): void {
    if ([...this.#running.values()].every(({ isServing, isDrained }) => isDrained || !isServing)) void this.#closePort()
  }

  async #closePort(): Promise<void> {
    const closing = this.#serving.filter(({ isClosing }) => !isClosing)
    for (const worker of closing) worker.isClosing = true
    await closePort(closing.map(({ connections }) => connections))
    for (const worker of closing) worker.send({ kind: 'close' })
  }
}
