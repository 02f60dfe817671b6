import { expect, test } from 'vitest'
import { idleGauges } from '../../test/harness/idle-gauges.ts'
import type { UsageParts } from '../base/domain/answer-event.ts'
import type { SettledFacts } from './metrics.ts'
import { createMetrics, type Metrics } from './metrics.ts'

const served: SettledFacts = {
  ...{ modelId: 'm', endpointId: 'box', hosterId: null, provider: 'hoster', outcome: 'served' },
  ...{ latencyMs: 900, firstTokenMs: 500, costNanos: 7n, inputTokens: 100, outputTokens: 50, attempts: [] },
}
const plain = { billedParts: null }

/** Returns the value of a series by its text. */
async function readSeries({ registry }: Metrics) {
  const lines = (await registry.metrics()).split('\n')
  return (series: string) => lines.find(line => line.startsWith(`${series} `))?.slice(series.length + 1)
}

test('rejected credentials are counted from zero, so that the first one is an increase', async () => {
  const metrics = createMetrics({ ...idleGauges, endpoints: () => [{ endpointId: 'box', kind: 'local' }] })
  const series = 'switchyard_attempts_total{provider="local",outcome="credential_rejected",endpoint="box"}'
  expect((await readSeries(metrics))(series)).toBe('0')
})

test('the last run of each schedule of usage rows is shown, with whether it failed', async () => {
  const schedules = async () => [
    { schedule: 'usage_archive', run: { atMs: 2_000, problem: null } },
    { schedule: 'usage_export', run: { atMs: 5_000, problem: 'The disk is full.' } },
  ]
  const read = await readSeries(createMetrics({ ...idleGauges, schedules }))
  expect(read('switchyard_usage_schedule_timestamp_seconds{schedule="usage_archive"}')).toBe('2')
  expect(read('switchyard_usage_schedule_timestamp_seconds{schedule="usage_export"}')).toBe('5')
  expect(read('switchyard_usage_schedule_failed{schedule="usage_archive"}')).toBe('0')
  expect(read('switchyard_usage_schedule_failed{schedule="usage_export"}')).toBe('1')
})

test('a histogram contains all observations when it is read', async () => {
  const metrics = createMetrics(idleGauges)
  for (let n = 0; n < 600; n++) {
    metrics.request({ path: n % 3 === 0 ? '/a' : '/b', status: 200, elapsedMs: 20 })
    metrics.settled(served, plain)
  }
  const labels = 'model="m",endpoint="box",provider="hoster"'
  const first = await readSeries(metrics)
  expect(first('switchyard_http_request_duration_seconds_count{path="/a"}')).toBe('200')
  expect(first('switchyard_http_request_duration_seconds_count{path="/b"}')).toBe('400')
  expect(first(`switchyard_first_token_seconds_bucket{le="0.4",${labels}}`)).toBe('0')
  expect(first(`switchyard_first_token_seconds_sum{${labels}}`)).toBe('300')
  expect(first(`switchyard_request_duration_seconds_count{${labels}}`)).toBe('600')
  // Reading twice counts nothing twice.
  metrics.settled(served, plain)
  expect((await readSeries(metrics))(`switchyard_first_token_seconds_count{${labels}}`)).toBe('601')
})

test('each billed token is of one kind', async () => {
  const metrics = createMetrics(idleGauges)
  const billedParts: UsageParts = {
    ...{ freshTokens: 30, cacheReadTokens: 60, cacheWriteTokens: 7, cacheWriteLongTokens: 3 },
    ...{ outputTokens: 50, reasoningTokens: 20 },
  }
  metrics.settled(served, { billedParts })
  const read = await readSeries(metrics)
  const kinds = ['input', 'cache_read', 'cache_write', 'output', 'reasoning']
  const labels = 'model="m",endpoint="box",provider="hoster",hoster=""'
  const counts = kinds.map(kind => Number(read(`switchyard_billed_tokens_total{${labels},kind="${kind}"}`)))
  expect(counts).toEqual([30, 60, 10, 30, 20])
})

test('many models and servers share a bounded number of series, and no request is lost', async () => {
  const metrics = createMetrics(idleGauges)
  for (let n = 0; n < 1_000; n++) {
    const endpointId = `box-${n % 400}`
    const attempt = { offerId: 'o', endpointId, provider: 'hoster', outcome: 'answered', elapsedMs: 1 } as const
    metrics.settled({ ...served, modelId: `m-${n}`, endpointId, attempts: [attempt] }, plain)
    metrics.ejection(endpointId)
  }
  const text = await metrics.registry.metrics()
  const valuesOf = (name: string) =>
    text
      .split('\n')
      .filter(line => line.startsWith(`${name}{`))
      .map(line => Number(line.slice(line.lastIndexOf(' '))))
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
  for (const [name, seriesMax] of [
    ['switchyard_requests_total', 201],
    ['switchyard_charged_nano_usd_total', 201],
    ['switchyard_request_duration_seconds_count', 201],
    ['switchyard_attempts_total', 201],
    ['switchyard_ejections_total', 201],
  ] as const)
    expect([name, valuesOf(name).length, sum(valuesOf(name))]).toEqual([
      name,
      seriesMax,
      name === 'switchyard_charged_nano_usd_total' ? 7_000 : 1_000,
    ])
})
