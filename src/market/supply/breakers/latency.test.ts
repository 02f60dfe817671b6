import { describe, expect, test } from 'vitest'
import {
  addCounts,
  aged,
  bucketOf,
  createLatency,
  createLatencySums,
  type LatencyCounts,
  quantileMs,
} from './latency.ts'

const NOW_MS = 1_000_000
const latency = () => createLatency(createLatencySums())
const stream = (inputTokens: number) => ({ stream: true, outputTokens: null, inputTokens })

describe('the time to the first token', () => {
  test('grows with the prompt as measured', () => {
    const measured = latency()
    for (let n = 0; n < 200; n++) {
      const inputTokens = 100 + 97 * (n % 50)
      measured.add(NOW_MS + n * 100, { firstTokenMs: 150 + inputTokens * 0.25, inputTokens })
    }
    const nowMs = NOW_MS + 20_000
    expect(measured.predictMs(nowMs, stream(1_000))).toBeGreaterThan(380)
    expect(measured.predictMs(nowMs, stream(1_000))).toBeLessThan(480)
    const long = measured.predictMs(nowMs, stream(100_000))!
    expect(long).toBeGreaterThan(24_000)
    expect(long).toBeLessThan(26_000)
    expect(measured.firstTokenP95Ms(nowMs, 100_000)).toBeGreaterThan(24_000)
  })

  test('does not depend on the prompt when all prompts are alike', () => {
    const measured = latency()
    for (let n = 0; n < 50; n++) measured.add(NOW_MS, { firstTokenMs: 200 + n, inputTokens: 1_000 + (n % 3) })
    expect(measured.predictMs(NOW_MS, stream(100_000))).toBe(249)
  })

  test('its 95th percentile needs 20 samples, and ages', () => {
    const measured = latency()
    for (let n = 0; n < 19; n++) measured.add(NOW_MS, { firstTokenMs: 100 })
    expect(measured.firstTokenP95Ms(NOW_MS, 0)).toBe(null)
    measured.add(NOW_MS, { firstTokenMs: 100 })
    expect(measured.firstTokenP95Ms(NOW_MS, 0)).toBeCloseTo(107.6, 1)
    expect(measured.firstTokenP95Ms(NOW_MS + 60_000, 0)).toBe(null)
  })
})

test('a quantile is at most 19% too high, and never too low', () => {
  const buckets = new Array<number>(69).fill(0)
  const times = Array.from({ length: 1_000 }, (_, n) => 1 + n * 7)
  for (const ms of times) buckets[bucketOf(ms)]!++
  for (const quantile of [0.5, 0.95, 0.99]) {
    const exact = times[Math.ceil(quantile * times.length) - 1]!
    const found = quantileMs(buckets, quantile, 1)!
    expect(found).toBeGreaterThanOrEqual(exact)
    expect(found).toBeLessThan(exact * 1.19)
  }
  expect(quantileMs([], 0.5, 1)).toBe(null)
})

test('the counts of two nodes are those of one node with all samples, whatever their times', () => {
  const [one, two, both] = [latency(), latency(), latency()]
  for (let n = 0; n < 40; n++) {
    const sample = { firstTokenMs: 50 + n * 10, totalMs: 2_000, outputTokens: 30 + n, inputTokens: 100 * n }
    const atMs = NOW_MS + n * 5_000
    ;(n % 3 === 0 ? one : two).add(atMs, sample)
    both.add(atMs, sample)
  }
  const nowMs = NOW_MS + 400_000
  const sum = (counts: LatencyCounts) => ({ ...counts, buckets: undefined })
  const added = sum(addCounts([aged(one.counts(nowMs - 100_000)!, 100_000), two.counts(nowMs)!]))
  const expected = sum(both.counts(nowMs)!)
  expect(added.agesMs).toEqual(expected.agesMs)
  for (const name of ['perToken', 'output', 'whole'] as const) expect(added[name].n).toBeCloseTo(expected[name].n)
  expect(added.first.n).toBeCloseTo(expected.first.n)
  expect(added.first.y).toBeCloseTo(expected.first.y)
  expect(added.first.xy).toBeCloseTo(expected.first.xy, 0)
})

test('sums stay exact for days', () => {
  const measured = latency()
  for (let minute = 0; minute < 3 * 1_440; minute++) {
    for (let n = 0; n < 5; n++) measured.add(NOW_MS + minute * 60_000, { firstTokenMs: 120, inputTokens: 10 })
  }
  const { first } = measured.counts(NOW_MS + 3 * 1_440 * 60_000 - 60_000)!
  expect(first.y / first.n).toBeCloseTo(120)
  // Five samples a minute with a mean age of five minutes.
  expect(first.n).toBeGreaterThan(25)
  expect(first.n).toBeLessThan(30)
})
