import { expect, test } from 'vitest'
import { createMetrics } from './metrics.ts'

test('rejected credentials are counted from zero, so that the first one is an increase', async () => {
  const metrics = createMetrics({
    inFlight: () => 0,
    memoryUsedBytes: () => 4,
    agents: () => ({ connected: 0, idle: 0 }),
    settleQueueLength: () => 0,
    waitingForCredit: () => 0,
    damagedSegments: () => 0,
    lastAudit: async () => undefined,
    lateJob: async () => undefined,
  })
  for (const provider of ['local', 'hoster', 'cloud'])
    expect(await metrics.registry.metrics()).toContain(
      `\nswitchyard_attempts_total{provider="${provider}",outcome="credential_rejected"} 0\n`,
    )
})

test('a histogram contains all observations when it is read', async () => {
  const metrics = createMetrics({
    inFlight: () => 0,
    memoryUsedBytes: () => 4,
    agents: () => ({ connected: 0, idle: 0 }),
    settleQueueLength: () => 0,
    waitingForCredit: () => 0,
    damagedSegments: () => 0,
    lastAudit: async () => undefined,
    lateJob: async () => undefined,
  })
  for (let n = 0; n < 600; n++) {
    metrics.request({ path: n % 3 === 0 ? '/a' : '/b', status: 200, elapsedMs: 20 })
    metrics.firstToken('hoster', 500)
  }
  const read = async () => {
    const text = await metrics.registry.metrics()
    return (series: string) =>
      text
        .split('\n')
        .find(line => line.startsWith(`${series} `))
        ?.split(' ')[1]
  }
  const first = await read()
  expect(first('switchyard_http_request_duration_seconds_count{path="/a"}')).toBe('200')
  expect(first('switchyard_http_request_duration_seconds_count{path="/b"}')).toBe('400')
  expect(first('switchyard_first_token_seconds_bucket{le="0.4",provider="hoster"}')).toBe('0')
  expect(first('switchyard_first_token_seconds_sum{provider="hoster"}')).toBe('300')
  // Reading twice counts nothing twice.
  metrics.firstToken('hoster', 500)
  expect((await read())('switchyard_first_token_seconds_count{provider="hoster"}')).toBe('601')
})
