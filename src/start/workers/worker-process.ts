import cluster, { type Worker } from 'node:cluster'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import type { ConfigReload } from '../../base/domain/config-reload.ts'
import { type ConnectionHandoffs, trackHandoffs } from './connection-handoff.ts'
import type { FromWorker, Sample, ToWorker } from './messages.ts'

/** The callbacks of a worker process. */
export interface WorkerListener<Task> {
  /** The worker is listening for messages. */
  onReady(worker: WorkerProcess<Task>): void
  onServing(worker: WorkerProcess<Task>): void
  onDrained(worker: WorkerProcess<Task>): void
  onSample(worker: WorkerProcess<Task>, sample: Sample): void
  /** The worker asks the primary to read the configuration again. */
  onReload(): Promise<ConfigReload>
  /** A message could not be sent; the process still runs. */
  onUnreachable(worker: WorkerProcess<Task>, error: Error): void
  onEnd(worker: WorkerProcess<Task>, end: WorkerEnd): void
}

export interface WorkerEnd {
  /** The process exited with code 0. */
  readonly isClean: boolean
  /** Fields for the log: number, pid, exit code or signal. */
  readonly logFields: object
  /** A message for the operator; undefined when the worker sent none. */
  readonly reason: string | undefined
}

/** How long to wait for a sample. A worker that is too busy to answer is counted with its last sample. */
const SAMPLE_TIMEOUT_MS = 2_000

/**
 * Forks a worker. Returns the Error when the operating system refuses: Node throws when memory is short, and
 * reports a lack of descriptors or processes later, as `WorkerEnd`.
 */
export function forkWorker<Task>(number: number, listener: WorkerListener<Task>): WorkerProcess<Task> | Error {
  const cache = getCompileCacheDir()
  // The directory of this version of Node. A worker appends that level again, so it gets the parent.
  const environment = cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) }
  try {
    return new WorkerProcess(number, cluster.fork(environment), listener)
  } catch (error) {
    return new Error(forkFailure(error as Error))
  }
}

const forkFailure = ({ message }: Error) => `The process of the worker could not be started: ${message}`

/** One worker, as the primary sees it. */
export class WorkerProcess<Task> {
  readonly number: number
  readonly connections: ConnectionHandoffs
  /** Resolves with the port when the worker serves, or with undefined when it ends first. */
  readonly port: Promise<number | undefined>
  /** Resolves when the process has ended, with whether it exited with code 0. */
  readonly ended: Promise<boolean>
  /** Set when the worker gets no more connections and may close the open ones. */
  isClosing = false

  readonly #process: Worker
  readonly #listener: WorkerListener<Task>
  readonly #port = Promise.withResolvers<number | undefined>()
  readonly #ended = Promise.withResolvers<boolean>()
  #isServing = false
  #isDrained = false
  #failure: string | undefined
  /** Called when a sample arrives, or when the worker has ended. */
  #onSampled: () => void = () => {}

  constructor(number: number, process: Worker, listener: WorkerListener<Task>) {
    this.number = number
    this.connections = trackHandoffs(process.process)
    this.port = this.#port.promise
    this.ended = this.#ended.promise
    this.#process = process
    this.#listener = listener
    process.on('message', message => this.#onMessage(message))
    process.on('error', error => this.#onError(error))
    process.on('exit', (code, signal) => {
      this.#end(code === 0, { worker: number, pid: this.pid, ...(signal ? { signal } : { code }) })
    })
  }

  get pid(): number | undefined {
    return this.#process.process.pid
  }

  /** Stays true after the worker has ended. */
  get isServing(): boolean {
    return this.#isServing
  }

  /** Whether all its requests have ended after a drain. */
  get isDrained(): boolean {
    return this.#isDrained
  }

  /** Drops the message when the worker is ending; its 'exit' event follows. */
  send(message: ToWorker<Task>): void {
    if (this.#process.isConnected()) this.#process.send(message, undefined, undefined, () => {})
  }

  kill(): void {
    this.#process.process.kill('SIGKILL')
  }

  /** Requests a sample for `onSample`. Resolves when it has arrived, or when none arrives in time. */
  async sample(): Promise<void> {
    const sampled = Promise.withResolvers<void>()
    this.#onSampled = sampled.resolve
    const timer = setTimeout(sampled.resolve, SAMPLE_TIMEOUT_MS)
    this.send({ kind: 'sample' })
    await sampled.promise
    clearTimeout(timer)
  }

  #onMessage(message: FromWorker): void {
    switch (message.kind) {
      case 'ready':
        this.#listener.onReady(this)
        break
      case 'serving':
        this.#isServing = true
        this.#listener.onServing(this)
        this.#port.resolve(message.port)
        break
      case 'drained':
        this.#isDrained = true
        this.#listener.onDrained(this)
        break
      case 'failed':
        this.#failure = message.reason
        break
      case 'sampled':
        this.#listener.onSample(this, message.sample)
        this.#onSampled()
        break
      case 'reload':
        this.#listener.onReload().then(result => this.send({ kind: 'reloaded', id: message.id, result }))
        break
    }
  }

  #onError(error: Error): void {
    if (this.pid !== undefined) {
      this.#listener.onUnreachable(this, error)
      return
    }
    // No process was started, so no 'exit' follows.
    this.#failure = forkFailure(error)
    this.#end(false, { worker: this.number })
  }

  #end(isClean: boolean, logFields: object): void {
    this.#onSampled()
    this.#ended.resolve(isClean)
    this.#port.resolve(undefined)
    this.#listener.onEnd(this, { isClean, logFields, reason: this.#failure })
  }
}
