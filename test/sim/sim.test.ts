import { afterAll, beforeAll, expect, test } from 'vitest'
import { simulate } from '../../sim/simulate.ts'
import { rounds } from '../harness/rounds.ts'

const SEEDS = rounds(1_000)

// Refusals throw thousands of errors, and their stack traces would take a tenth of the time.
const { stackTraceLimit } = Error
beforeAll(() => {
  Error.stackTraceLimit = 0
})
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit
})

test(`${SEEDS} simulated runs with crashes, pauses, partitions and lost messages break no invariant`, async () => {
  const failures: string[] = []
  let requests = 0
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { failure, counts } = await simulate(seed)
    requests += counts.requests
    if (failure !== undefined) failures.push(`seed ${seed}: ${failure.rule}: ${failure.why}`)
  }
  expect(failures).toEqual([])
  expect(requests).toBeGreaterThan(SEEDS)
}, 900_000)

test('the same seed gives exactly the same run', async () => {
  for (const seed of [7, 77, 777]) {
    const [first, second] = [await simulate(seed), await simulate(seed)]
    expect(second.fingerprint).toBe(first.fingerprint)
    expect(second.counts).toEqual(first.counts)
  }
})
