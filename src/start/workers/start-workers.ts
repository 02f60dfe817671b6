import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'
import { WorkerGroup, type WorkersOptions } from './worker-group.ts'

/** Processes that serve behind one port. */
export interface Workers {
  /**
   * Resolves with the port when each worker has started to serve, or has failed and is scheduled for another
   * start. Rejects when no worker can serve.
   */
  readonly port: Promise<number>
  /**
   * Rejects with a message for the operator when the workers crash too often, or when none is left and none can
   * start.
   */
  readonly broken: Promise<never>
  /** From now on `/readyz` of all workers answers 503. */
  announceClose(): void
  /**
   * Drains all workers. Resolves when they have ended, with the number of workers that did not shut down
   * cleanly. `force` cuts the drain short. Safe to call twice.
   */
  stop(force: AbortSignal): Promise<number>
  /** Sends the tasks again, after `task` returns others. */
  updateTasks(): void
  /** Returns the metrics of all workers and the primary as text for Prometheus. */
  metricsText(): Promise<string>
}

/**
 * Starts the first worker and, once it serves, the others. The primary accepts the connections and hands them
 * to the workers (docs/decisions/2026-11-21-primary-accepts-connections.md). A worker that crashes is started
 * again, after a delay that grows with each crash.
 */
export function startWorkers<Task>(options: WorkersOptions<Task>): Workers {
  cluster.schedulingPolicy = cluster.SCHED_RR
  cluster.setupPrimary({
    exec: fileURLToPath(options.program),
    args: [],
    // Structured clones carry values that JSON cannot: money as bigint, sets, buffers.
    serialization: 'advanced',
    // The terminal's input belongs to the primary.
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const group = new WorkerGroup(options)
  group.start()
  return {
    port: group.port,
    broken: group.broken,
    announceClose: () => group.announceClose(),
    stop: force => group.stop(force),
    updateTasks: () => group.updateTasks(),
    metricsText: () => group.metricsText(),
  }
}
