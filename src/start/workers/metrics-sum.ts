import { AggregatorRegistry } from 'prom-client'
import type { Sample } from './messages.ts'

/** The metrics of all workers as one set of sums. */
export interface MetricsSum {
  /** The newest sample of a running worker, instead of its last one. */
  update(worker: number, sample: Sample): void
  /** The worker ended. What it had counted stays in the sums; what it measured of itself goes. */
  depart(worker: number): void
  /** The text for Prometheus: the sums over the workers and `own`, the primary's sample. */
  text(own: Sample): Promise<string>
}

/**
 * Counters and histograms never go down when a worker is replaced: Prometheus would take the drop for a restart and count what
 * is left a second time. What a worker counted between its last sample and its crash is lost.
 */
export function createMetricsSum(): MetricsSum {
  const latest = new Map<number, Sample>()
  let departed: Sample = []
  // One after the other: two workers that end at once must not overwrite each other's sum.
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

/** prom-client's way to combine a metric of several processes, apart from two that would hide something. */
function combinable(metric: Sample[number]): Sample[number] {
  switch (metric.aggregator) {
    // Of the lag of event loops: the mean hides the one worker that is at its limit.
    case 'average':
      return { ...metric, aggregator: 'max' }
    // Of the start of the process: the primary's is the gateway's.
    case 'omit':
      return { ...metric, aggregator: 'min' }
    default:
      return metric
  }
}
