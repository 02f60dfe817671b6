import { expect, test } from 'vitest'
import { offerWarnings } from '../../console/src/features/operator/offer-warnings.ts'
import { usageBuckets } from '../../console/src/features/operator/usage-buckets.ts'

const offer = {
  name: 'gpu-1',
  state: 'working',
  input_usd_per_million: 0.1,
  output_usd_per_million: 0.4,
  context_tokens: 8_192,
}

test('a model without a server that works is an alarm, a single server a warning', () => {
  const away = { ...offer, name: 'gpu-2', state: 'ejected' }
  expect(offerWarnings({ id: 'm', offers: [offer] })).toEqual([])
  expect(offerWarnings({ id: 'm', offers: [offer, away] })).toEqual([
    { severity: 'warn', text: 'm: gpu-2 takes no requests.' },
  ])
  const failing = { ...offer, name: 'gpu-3', state: 'failing' }
  expect(offerWarnings({ id: 'm', offers: [offer, failing] })).toEqual([
    { severity: 'warn', text: 'm: gpu-3 fails most requests.' },
  ])
  expect(offerWarnings({ id: 'm', offers: [away, failing] })).toEqual([
    { severity: 'danger', text: 'm: no server works.' },
  ])
})

test('servers without a price and different contexts are warnings', () => {
  const free = { ...offer, name: 'gpu-2', input_usd_per_million: 0, output_usd_per_million: 0, context_tokens: 4_096 }
  const texts = offerWarnings({ id: 'm', offers: [offer, free] }).map(({ text }) => text)
  expect(texts).toEqual([
    'm: gpu-2 is free. Set its price.',
    'm: servers differ in context, from 4096 to 8192 tokens. Long prompts go only to some.',
  ])
})

test('days without requests are in the chart, and long spans are weeks that lose no cent', () => {
  const days = [
    ...[{ day: '2026-11-01', requests: 3, charged_usd: 0.1, failed: 1, revenue_usd: 0.1 }],
    ...[{ day: '2026-11-24', requests: 2, charged_usd: 0.2, failed: 0, revenue_usd: 0.2 }],
  ].map((day, index) => ({ ...day, margin_usd: [-0.3, 0.1][index]!, mean_latency_ms: [100, 400][index]! }))
  const nowMs = Date.parse('2026-11-24T12:00:00Z')
  const month = usageBuckets({ from: '2026-11-01', until: '2026-11-24', days }, nowMs)
  expect(month).toHaveLength(24)
  expect(month[1]).toEqual({
    ...{ from: '2026-11-02', until: '2026-11-02', requests: 0, chargedUsd: 0, isOpen: false },
    ...{ revenueUsd: 0, marginUsd: 0, failedShare: null, meanLatencyMs: null },
  })
  expect(month[0]).toMatchObject({ revenueUsd: 0.1, marginUsd: -0.3, failedShare: 1 / 3, meanLatencyMs: 100 })
  expect(month.at(-1)).toMatchObject({ chargedUsd: 0.2, isOpen: true, failedShare: 0, meanLatencyMs: 400 })

  const year = usageBuckets({ from: '2025-11-24', until: '2026-11-24', days }, nowMs)
  expect(year).toHaveLength(53)
  expect(year[0]).toMatchObject({ from: '2025-11-24', until: '2025-11-25' })
  expect(year.at(-1)).toMatchObject({ from: '2026-11-18', until: '2026-11-24', isOpen: true })
  expect(year.reduce((sum, { requests }) => sum + requests, 0)).toBe(5)
})
