import { AggregatorRegistry } from 'prom-client'
import type { Sample } from './messages.ts'

/** The metrics of all workers as one set of sums. */
export interface MetricsSum {
  /** Replaces the sample of a running worker. */
  update(worker: number, sample: Sample): void
  /** Called when a worker has ended. Its counters and histograms stay in the sums; its gauges are removed. */
  retire(worker: number): void
  /** Returns the text for Prometheus: the sums over the workers and `primary`, the sample of the primary. */
  text(primary: Sample): Promise<string>
}

/**
 * Creates empty sums. Counters and histograms must not go down when a worker is replaced: Prometheus would
 * treat the drop as a restart and count the remainder a second time. Counts between the last sample of a
 * worker and its crash are lost.
 */
export function createMetricsSum(): MetricsSum {
  const latest = new Map<number, Sample>()
  let retired: Sample = []
  // Runs additions one at a time: two workers that end at the same time must not overwrite each other's sum.
  let adding: Promise<void> = Promise.resolve()
  return {
    update: (worker, sample) => {
      latest.set(worker, sample)
    },
    retire(worker) {
      const counted = latest.get(worker)?.filter(({ type }) => COUNTED.has(String(type))) ?? []
      latest.delete(worker)
      adding = adding.then(async () => {
        retired = await AggregatorRegistry.aggregate([[...retired], counted]).getMetricsAsJSON()
      })
    },
    async text(primary) {
      await adding
      const samples = [primary, retired, ...latest.values()].map(sample => sample.map(withAggregator))
      return AggregatorRegistry.aggregate(samples).metrics()
    },
  }
}

const COUNTED: ReadonlySet<string> = new Set(['counter', 'histogram'])

/** Overrides the aggregators of prom-client that would hide something. */
function withAggregator(metric: Sample[number]): Sample[number] {
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
