import cluster, { type Worker } from 'node:cluster'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { type ConnectionHandoffs, closePort, trackHandoffs } from './connection-handoff.ts'
import { createCrashLimit } from './crash-limit.ts'
import type { FromWorker, ToWorker } from './messages.ts'
import { createMetricsSum } from './metrics-sum.ts'

/** Processes that serve behind one port. */
export interface Workers {
  /** The port, once each worker serves or has failed and is being tried again. Rejects when none can serve. */
  readonly port: Promise<number>
  /** Rejects, with a sentence for the operator, when the workers crash too often or none is left that can start. */
  readonly broken: Promise<never>
  /**
   * Lets all of them drain; resolves when they have ended, with the number of those that did not end well. `hurry` cuts the drain
   * short. Safe to call twice.
   */
  stop(hurry: AbortSignal): Promise<number>
}

export interface WorkersOptions<Task> {
  readonly count: number
  /** The program of a worker; it calls `connectToPrimary`. */
  readonly program: URL
  /**
   * What a worker is to do. `first` is true while no worker has served yet: it is alone then and may clear up after former
   * processes, which several at once could take each other for.
   */
  readonly task: (facts: { number: number; first: boolean }) => Task
  /** How long a worker may drain, ms. */
  readonly drainMs: number
  readonly log: WorkersLog
}

interface WorkersLog {
  info(facts: object, message: string): void
  error(facts: object, message: string): void
}

/** Between tries to start a worker that cannot, while others serve. */
const START_AGAIN_MS = 5_000
/** After its drain a worker ends what still runs, within five seconds. For one that hangs the others do not wait. */
const LEAVE_MS = 6_000
/** Then it commits charges and closes; after so long from the end of its drain it is killed, and the journal has what it did not settle. */
const CLOSE_MS = 25_000
/** A worker that is too busy to answer is counted with its last sample. */
const SAMPLE_MS = 2_000

/**
 * Starts the first worker and, when it serves, the others. The primary accepts the connections and hands them to the workers
 * (docs/decisions/2026-11-21-the-primary-accepts.md). One that crashes is started again, ever later.
 */
export function startWorkers<Task>({ count, program, task, drainMs, log }: WorkersOptions<Task>): Workers {
  cluster.schedulingPolicy = cluster.SCHED_RR
  cluster.setupPrimary({
    exec: fileURLToPath(program),
    args: [],
    // Structured clones carry what JSON cannot: money as bigint, sets, buffers.
    serialization: 'advanced',
    // Ctrl-C and what is typed belong to the primary.
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const compileCache = getCompileCacheDir()
  // It names a directory of this version of Node, which would make one of its own in there.
  const environment = compileCache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(compileCache) }

  const port = Promise.withResolvers<number>()
  const broken = Promise.withResolvers<never>()
  // Whoever waits for one of them hears of it; the other one is then nobody's fault.
  port.promise.catch(() => {})
  broken.promise.catch(() => {})
  const running = new Map<number, Running>()
  const crashes = createCrashLimit({ workers: count })
  const metrics = createMetricsSum()
  const own = ownMetrics({ serving: () => [...running.values()].filter(worker => worker.serving).length })
  const timers = new Set<NodeJS.Timeout>()
  let everServed = false
  let stopped: Promise<number> | undefined
  let sampling: Promise<void> | undefined

  const first = start(1)
  first.then(async ({ serving }) => {
    if (serving === undefined) return
    await Promise.all(Array.from({ length: count - 1 }, (_, index) => start(index + 2)))
    port.resolve(serving)
  })
  return {
    port: port.promise,
    broken: broken.promise,
    stop(hurry) {
      stopped ??= stopAll(hurry)
      return stopped
    },
  }

  /** Resolves with the port when the worker serves, without one when it ended before. */
  function start(number: number): Promise<{ serving?: number }> {
    const outcome = Promise.withResolvers<{ serving?: number }>()
    const process = fork()
    if (process instanceof Error) {
      startAgain({ number, serving: false }, { worker: number }, unmade(process))
      return Promise.resolve({})
    }
    const worker: Running = {
      number,
      process,
      connections: trackHandoffs(process.process),
      serving: false,
      drained: false,
      leaves: false,
      ended: Promise.withResolvers(),
      onSample: () => {},
    }
    let reason: string | undefined
    running.set(number, worker)
    process.on('error', error => {
      if (process.process.pid !== undefined) {
        log.error({ worker: number, err: error }, 'a worker could not be reached')
        return
      }
      // Nothing was started, so nothing will exit.
      reason = unmade(error)
      onEnd(false, { worker: number })
    })
    process.on('message', async (message: FromWorker) => {
      switch (message.kind) {
        case 'here':
          send(worker, { kind: 'task', task: task({ number, first: !everServed }) })
          // It may have been told before it listened.
          if (stopped) send(worker, { kind: 'drain' })
          break
        case 'serving':
          worker.serving = true
          everServed = true
          log.info({ worker: number, pid: process.process.pid }, 'a worker serves')
          outcome.resolve({ serving: message.port })
          break
        case 'drained':
          worker.drained = true
          leaveTogether()
          break
        case 'failed':
          reason = message.reason
          break
        case 'sampled':
          metrics.update(number, message.sample)
          worker.onSample()
          break
        case 'metrics':
          send(worker, { kind: 'metrics', id: message.id, text: await metricsText() })
          break
      }
    })
    process.on('exit', (code, signal) => {
      onEnd(code === 0, { worker: number, pid: process.process.pid, ...(signal ? { signal } : { code }) })
    })
    return outcome.promise

    function onEnd(endedWell: boolean, facts: object): void {
      running.delete(number)
      metrics.depart(number)
      worker.onSample()
      worker.ended.resolve(endedWell)
      outcome.resolve({})
      if (!stopped) startAgain(worker, facts, reason)
      else {
        if (!endedWell) log.error({ ...facts, reason }, 'a worker did not end well')
        leaveTogether()
      }
    }
  }

  /** Where the machine is short of descriptors or processes Node says so later, where it is short of memory it throws. */
  function fork(): Worker | Error {
    try {
      return cluster.fork(environment)
    } catch (error) {
      return error as Error
    }
  }

  function startAgain(
    { number, serving }: Pick<Running, 'number' | 'serving'>,
    facts: object,
    reason: string | undefined,
  ): void {
    if (!serving) {
      log.error({ ...facts, reason }, 'a worker could not start')
      // Others serve, so this may pass, as when the database is away. When none does, the operator has to know.
      if ([...running.values()].some(worker => worker.serving)) startLater(number, START_AGAIN_MS)
      else giveUp(reason ?? 'A worker ended before it could serve. What it said is above.')
      return
    }
    own.crash()
    const delayMs = crashes.crashed(number, performance.now())
    log.error({ ...facts, delayMs }, 'a worker crashed; what it was running is free')
    if (delayMs !== null) startLater(number, delayMs)
    else giveUp('The workers crash again and again. What they said is above; the gateway stops.')
  }

  function startLater(number: number, delayMs: number): void {
    const timer = setTimeout(() => {
      timers.delete(timer)
      start(number)
    }, delayMs)
    timers.add(timer)
  }

  function giveUp(reason: string): void {
    port.reject(new Error(reason))
    broken.reject(new Error(reason))
  }

  /**
   * The port is open for as long as one worker listens, and a proxy that can connect goes on using the connections that it has. So no worker closes
   * its own before all are about to stop listening: a request could be on its way.
   */
  function leaveTogether(): void {
    if ([...running.values()].every(({ serving, drained }) => drained || !serving)) void leave()
  }

  async function leave(): Promise<void> {
    const leaving = [...running.values()].filter(({ serving, leaves }) => serving && !leaves)
    for (const worker of leaving) worker.leaves = true
    await closePort(leaving.map(({ connections }) => connections))
    for (const worker of leaving) send(worker, { kind: 'leave' })
  }

  function tell(kind: 'drain' | 'hurry'): void {
    for (const worker of running.values()) send(worker, { kind })
  }

  async function stopAll(hurry: AbortSignal): Promise<number> {
    for (const timer of timers) clearTimeout(timer)
    const workers = [...running.values()]
    const kill = () => {
      for (const { number, process } of running.values()) {
        log.error({ worker: number }, 'a worker does not end and is killed')
        process.process.kill('SIGKILL')
      }
    }
    let deadlines = limit(drainMs)
    const hasten = () => {
      tell('hurry')
      for (const deadline of deadlines) clearTimeout(deadline)
      deadlines = limit(0)
    }
    tell('drain')
    if (hurry.aborted) hasten()
    else hurry.addEventListener('abort', hasten, { once: true })
    const ended = await Promise.all(workers.map(worker => worker.ended.promise))
    for (const deadline of deadlines) clearTimeout(deadline)
    hurry.removeEventListener('abort', hasten)
    return ended.filter(well => !well).length

    function limit(drainMs: number): NodeJS.Timeout[] {
      return [setTimeout(leave, drainMs + LEAVE_MS), setTimeout(kill, drainMs + CLOSE_MS)]
    }
  }

  function send({ process }: Running, message: ToWorker<Task>): void {
    // One that ends cannot be told anything; its exit says so.
    if (process.isConnected()) process.send(message, undefined, undefined, () => {})
  }

  async function metricsText(): Promise<string> {
    sampling ??= sampleAll().finally(() => {
      sampling = undefined
    })
    await sampling
    return metrics.text(await own.registry.getMetricsAsJSON())
  }

  async function sampleAll(): Promise<void> {
    const asked = [...running.values()].filter(worker => worker.serving)
    await Promise.all(
      asked.map(async worker => {
        const answer = Promise.withResolvers<void>()
        worker.onSample = answer.resolve
        const timer = setTimeout(answer.resolve, SAMPLE_MS)
        send(worker, { kind: 'sample' })
        await answer.promise
        clearTimeout(timer)
      }),
    )
  }
}

interface Running {
  readonly number: number
  readonly process: Worker
  readonly connections: ConnectionHandoffs
  serving: boolean
  /** Nothing runs on it any more. */
  drained: boolean
  /** It gets no more connections, and may close those that it has. */
  leaves: boolean
  readonly ended: PromiseWithResolvers<boolean>
  /** Called when a sample has come, or never will. */
  onSample: () => void
}

const unmade = ({ message }: Error) => `No process could be made for it: ${message}`

/** What the primary knows, beside the usual figures of its own process. */
function ownMetrics({ serving }: { serving: () => number }): { registry: Registry; crash(): void } {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  new Gauge({
    name: 'switchyard_workers',
    help: 'Workers that serve.',
    registers: [registry],
    collect() {
      this.set(serving())
    },
  })
  const crashes = new Counter({
    name: 'switchyard_worker_crashes_total',
    help: 'Workers that ended by themselves after they had served.',
    registers: [registry],
  })
  return { registry, crash: () => crashes.inc() }
}
