import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { createMetricsSum } from './metrics-sum.ts'

/** A process with one metric of each kind. */
function measured() {
  const registers = [new Registry()]
  return {
    registry: registers[0]!,
    requests: new Counter({ name: 'requests_total', help: '.', labelNames: ['status'], registers }),
    running: new Gauge({ name: 'running', help: '.', registers }),
    lag: new Gauge({ name: 'lag', help: '.', registers, aggregator: 'average' }),
    start: new Gauge({ name: 'start', help: '.', registers, aggregator: 'omit' }),
    duration: new Histogram({ name: 'duration', help: '.', registers, buckets: [1, 10] }),
  }
}

async function textOf(sum: ReturnType<typeof createMetricsSum>, primary = measured()): Promise<string[]> {
  const text = await sum.text(await primary.registry.getMetricsAsJSON())
  return text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
}

test('sums counters, histograms and gauges, and uses the highest lag and the earliest start', async () => {
  const sum = createMetricsSum()
  for (const worker of [1, 2, 3]) {
    const { registry, requests, running, lag, start, duration } = measured()
    requests.inc({ status: 200 }, worker)
    if (worker === 2) requests.inc({ status: 503 })
    running.set(10 * worker)
    lag.set(worker / 10)
    start.set(1000 + worker)
    duration.observe(worker === 3 ? 5 : 0.5)
    sum.update(worker, await registry.getMetricsAsJSON())
  }
  const primary = measured()
  primary.start.set(1000)
  expect(await textOf(sum, primary)).toEqual([
    'requests_total{status="200"} 6',
    'requests_total{status="503"} 1',
    'running 60',
    'lag 0.3',
    'start 1000',
    'duration_bucket{le="1"} 2',
    'duration_bucket{le="10"} 3',
    'duration_bucket{le="+Inf"} 3',
    'duration_sum 6',
    'duration_count 3',
  ])
})

test('counts outlive their worker, gauges do not', async () => {
  const sum = createMetricsSum()
  // The same two workers, replaced several times, and both at the same time.
  for (let round = 0; round < 5; round++) {
    for (const worker of [1, 2]) {
      const { registry, requests, running, duration } = measured()
      requests.inc({ status: 200 })
      running.set(7)
      duration.observe(1)
      sum.update(worker, await registry.getMetricsAsJSON())
    }
    sum.retire(1)
    sum.retire(2)
  }
  const lines = await textOf(sum)
  expect(lines).toContain('requests_total{status="200"} 10')
  expect(lines).toContain('duration_count 10')
  expect(lines).toContain('running 0')
})

test('a worker that ends before its first sample changes nothing', async () => {
  const sum = createMetricsSum()
  sum.retire(1)
  expect(await textOf(sum)).toContain('running 0')
})
