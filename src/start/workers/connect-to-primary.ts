import type { Registry } from 'prom-client'
import type { ConfigReload } from '../../base/domain/config-reload.ts'
import type { FromWorker, ToWorker } from './messages.ts'

/**
 * A worker's connection to its primary. When it breaks, Node ends the worker: without a primary no connections
 * are accepted.
 */
export interface PrimaryConnection<Task> {
  /** The task of this worker; arrives once. */
  readonly task: Promise<Task>
  /** Calls `listener` for each later version of the task; at once when one has arrived. */
  onUpdate(listener: (task: Task) => void): void
  /** Asks the primary to read the configuration again. */
  reload(): Promise<ConfigReload>
  /** Resolves when the drain is near. */
  readonly announceClose: Promise<void>
  /** Resolves when the worker must drain and end. */
  readonly drain: Promise<void>
  /** Aborted when the drain must end immediately. */
  readonly force: AbortSignal
  serving(facts: { port: number; registry: Registry }): void
  /**
   * Reports that no request runs on this worker any more. Resolves when all workers have drained or their time is
   * over.
   */
  drained(): Promise<void>
  /** Resolves when `reason` has been sent. */
  failed(reason: string): Promise<void>
}

/** Call it once, in a process that `startWorkers` started. */
export function connectToPrimary<Task>(): PrimaryConnection<Task> {
  const task = Promise.withResolvers<Task>()
  const announceClose = Promise.withResolvers<void>()
  const drain = Promise.withResolvers<void>()
  const mayClose = Promise.withResolvers<void>()
  const force = new AbortController()
  let registry: Registry | undefined
  let update: Task | undefined
  const reloads = new Map<number, (result: ConfigReload) => void>()
  let lastReload = 0
  let onUpdate = (_task: Task) => {}

  const send = (message: FromWorker) =>
    // Resolves on failure too: a broken connection ends this process anyway.
    new Promise<void>(resolve => process.send!(message, undefined, undefined, () => resolve()))
  const onMessage = async (message: ToWorker<Task>) => {
    switch (message.kind) {
      case 'task':
        task.resolve(message.task)
        break
      case 'update':
        update = message.task
        onUpdate(message.task)
        break
      case 'announceClose':
        announceClose.resolve()
        break
      case 'drain':
        drain.resolve()
        break
      case 'close':
        mayClose.resolve()
        break
      case 'force':
        force.abort()
        break
      case 'reloaded':
        reloads.get(message.id)?.(message.result)
        reloads.delete(message.id)
        break
      case 'sample':
        await send({ kind: 'sampled', sample: (await registry?.getMetricsAsJSON()) ?? [] })
        break
    }
  }
  process.on('message', message => onMessage(message as ToWorker<Task>))
  send({ kind: 'ready' })

  return {
    task: task.promise,
    onUpdate(listener) {
      onUpdate = listener
      if (update !== undefined) listener(update)
    },
    reload() {
      const id = ++lastReload
      const { promise, resolve } = Promise.withResolvers<ConfigReload>()
      reloads.set(id, resolve)
      void send({ kind: 'reload', id })
      return promise
    },
    announceClose: announceClose.promise,
    drain: drain.promise,
    force: force.signal,
    serving(facts) {
      registry = facts.registry
      send({ kind: 'serving', port: facts.port })
    },
    async drained() {
      await send({ kind: 'drained' })
      await mayClose.promise
    },
    failed: reason => send({ kind: 'failed', reason }),
  }
}
