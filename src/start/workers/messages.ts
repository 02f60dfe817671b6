import type { MetricObjectWithValues, MetricValue } from 'prom-client'
import type { ConfigReload } from '../../base/domain/config-reload.ts'

/** The metrics of one process at one moment, as `Registry.getMetricsAsJSON` returns them. */
export type Sample = readonly MetricObjectWithValues<MetricValue<string>>[]

/** Messages from the primary to a worker. */
export type ToWorker<Task> =
  | { readonly kind: 'task'; readonly task: Task }
  /** The task has changed since. */
  | { readonly kind: 'update'; readonly task: Task }
  /** `/readyz` must answer 503. */
  | { readonly kind: 'announceClose' }
  | { readonly kind: 'drain' }
  /** No request runs on any worker, so the port and its connections can be closed. */
  | { readonly kind: 'close' }
  /** End the drain immediately. */
  | { readonly kind: 'force' }
  | { readonly kind: 'sample' }
  /** Answers `reload`. */
  | { readonly kind: 'reloaded'; readonly id: number; readonly result: ConfigReload }

/** Messages from a worker to the primary. */
export type FromWorker =
  /** The worker is listening for messages. Messages sent earlier are lost. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'serving'; readonly port: number }
  /** No request runs on this worker any more. */
  | { readonly kind: 'drained' }
  /** The worker cannot start and ends; `reason` is a message for the operator. */
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'sampled'; readonly sample: Sample }
  /** Asks the primary to read the configuration again. */
  | { readonly kind: 'reload'; readonly id: number }
