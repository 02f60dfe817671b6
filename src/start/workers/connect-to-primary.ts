import type { Registry } from 'prom-client'
import type { FromWorker, ToWorker } from './messages.ts'

/** A worker's line to its primary. When it breaks, Node ends the worker: without a primary nobody accepts connections. */
export interface PrimaryLine<Task> {
  /** What this worker is to do; comes once. */
  readonly task: Promise<Task>
  /** Resolves when the worker has to drain and end. */
  readonly drain: Promise<void>
  /** Aborted when the drain has to end at once. */
  readonly hurry: AbortSignal
  serving(facts: { port: number; registry: Registry }): void
  /** To be called when nothing runs here any more. Resolves when nothing runs on any worker, or has had its time. */
  drained(): Promise<void>
  /** Resolves when the reason was handed over. */
  failed(reason: string): Promise<void>
  /** The metrics of all workers as text for Prometheus. */
  metricsOfAll(): Promise<string>
}

/** To be called once in a process that `startWorkers` started. */
export function connectToPrimary<Task>(): PrimaryLine<Task> {
  const task = Promise.withResolvers<Task>()
  const drain = Promise.withResolvers<void>()
  const leave = Promise.withResolvers<void>()
  const hurry = new AbortController()
  const waiting = new Map<number, (text: string) => void>()
  let questions = 0
  let registry: Registry | undefined

  const send = (message: FromWorker) =>
    // A line that is broken ends this process anyway.
    new Promise<void>(resolve => process.send!(message, undefined, undefined, () => resolve()))
  const onMessage = async (message: ToWorker<Task>) => {
    switch (message.kind) {
      case 'task':
        task.resolve(message.task)
        break
      case 'drain':
        drain.resolve()
        break
      case 'leave':
        leave.resolve()
        break
      case 'hurry':
        hurry.abort()
        break
      case 'sample':
        await send({ kind: 'sampled', sample: (await registry?.getMetricsAsJSON()) ?? [] })
        break
      case 'metrics':
        waiting.get(message.id)?.(message.text)
        waiting.delete(message.id)
        break
    }
  }
  process.on('message', message => onMessage(message as ToWorker<Task>))
  send({ kind: 'here' })

  return {
    task: task.promise,
    drain: drain.promise,
    hurry: hurry.signal,
    serving(facts) {
      registry = facts.registry
      send({ kind: 'serving', port: facts.port })
    },
    async drained() {
      await send({ kind: 'drained' })
      await leave.promise
    },
    failed: reason => send({ kind: 'failed', reason }),
    metricsOfAll() {
      const id = ++questions
      const text = Promise.withResolvers<string>()
      waiting.set(id, text.resolve)
      send({ kind: 'metrics', id })
      return text.promise
    },
  }
}
