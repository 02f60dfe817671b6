import { AggregatorRegistry } from 'prom-client'
import type { Sample } from './messages.ts'

/** The metrics of all workers as one set of sums. */
export interface MetricsSum {
  /** Replaces the sample of a running worker. */
  update(worker: number, sample: Sample): void
  /** The worker ended: its counters and histograms stay in the sums, its gauges leave them. */
  depart(worker: number): void
  /** Returns the text for Prometheus: the sums over the workers and `own`, the sample of the primary. */
  text(own: Sample): Promise<string>
}

/**
 * Counters and histograms never go down when a worker is replaced: Prometheus would treat the drop as a restart
 * and count the remainder a second time. Counts between the last sample of a worker and its crash are lost.
 */
export function createMetricsSum(): MetricsSum {
  const latest = new Map<number, Sample>()
  let departed: Sample = []
  // Runs additions one at a time: two workers that end at once must not overwrite each other's sum.
  let adding: Promise<void> = Promise.resolve()
  return {
    update: (worker, sample) => {
      latest.set(worker, sample)
    },
    depart(worker) {
      const counted = latest.get(worker)?.filter(({ type }) => COUNTED.has(String(type))) ?? []
      latest.delete(worker)
      adding = adding.then(async () => {
        departed = await AggregatorRegistry.aggregate([[...departed], counted]).getMetricsAsJSON()
      })
    },
    async text(own) {
      await adding
      const samples = [own, departed, ...latest.values()].map(sample => sample.map(combinable))
      return AggregatorRegistry.aggregate(samples).metrics()
    },
  }
}

const COUNTED: ReadonlySet<string> = new Set(['counter', 'histogram'])

/** Overrides the aggregators of prom-client that would hide something. */
function combinable(metric: Sample[number]): Sample[number] {
  switch (metric.aggregator) {
    // Event loop lag: a mean hides the one worker that is at its limit.
    case 'average':
      return { ...metric, aggregator: 'max' }
    // Start time of the process: the primary started first, so its time is the gateway's.
    case 'omit':
      return { ...metric, aggregator: 'min' }
    default:
      return metric
  }
}
