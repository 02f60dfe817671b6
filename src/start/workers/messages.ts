import type { MetricObjectWithValues, MetricValue } from 'prom-client'

/** The metrics of one process at one moment, as `Registry.getMetricsAsJSON` gives them. */
export type Sample = readonly MetricObjectWithValues<MetricValue<string>>[]

/** What the primary says to a worker. */
export type ToWorker<Task> =
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'drain' }
  /** Nothing runs on any worker: the port and its connections can be closed. */
  | { readonly kind: 'leave' }
  | { readonly kind: 'hurry' }
  | { readonly kind: 'sample' }
  | { readonly kind: 'metrics'; readonly id: number; readonly text: string }

/** What a worker says to the primary. */
export type FromWorker =
  /** Listening to messages: one that is sent earlier is lost. */
  | { readonly kind: 'here' }
  | { readonly kind: 'serving'; readonly port: number }
  /** Nothing runs here any more. */
  | { readonly kind: 'drained' }
  /** It cannot start and ends; `reason` is a sentence for the operator. */
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'sampled'; readonly sample: Sample }
  | { readonly kind: 'metrics'; readonly id: number }
