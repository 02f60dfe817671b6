import { beforeEach, describe, expect, test } from 'vitest'
import type { ConcurrencyLimits } from '../../../base/domain/health.ts'
import { createHealth } from './health.ts'

let nowMs: number
let health: ReturnType<typeof createHealth>
const learned = { isLearned: true, capacity: undefined }
const unlimited = { isLearned: false, capacity: undefined }

beforeEach(() => {
  nowMs = 1_000_000
  health = createHealth({ clock: { epochMs: () => nowMs, monotonicMs: () => nowMs }, random: () => 0.5 })
})

const shareOf = (limits: ConcurrencyLimits) => health.read('x', { stream: true, outputTokens: null }, limits).share
const begin = (times = 1) => {
  for (let n = 0; n < times; n++) health.beginRequest('x')
}
const answered = (times = 1, afterMs = 0) => {
  for (let n = 0; n < times; n++) {
    nowMs += afterMs
    health.recordSuccess('x', { firstTokenMs: 10, totalMs: 10 })
    health.endRequest('x')
  }
}
/** How many requests at once the server gets before it counts as full. */
const room = () => {
  let requests = 0
  for (; shareOf(learned) > 0 && requests < 1_000; requests++) begin()
  for (let n = 0; n < requests; n++) health.endRequest('x')
  return requests
}

test('slow start: a tenth of the traffic after an ejection, all of it a minute later', () => {
  expect(shareOf(learned)).toBe(1)
  for (let n = 0; n < 5; n++) health.recordFailure('x', 'server_error')
  nowMs += 5_000
  for (let n = 0; n < 3; n++) health.recordSuccess('x', { firstTokenMs: 10 })
  expect(shareOf(learned)).toBeCloseTo(0.1)
  nowMs += 30_000
  expect(shareOf(learned)).toBeCloseTo(0.55)
  nowMs += 30_000
  expect(shareOf(learned)).toBe(1)
})

describe('the concurrency of a hoster', () => {
  test('begins with four requests at once, and only hosters have a learned limit', () => {
    begin(4)
    expect(shareOf(learned)).toBe(0)
    expect(shareOf(unlimited)).toBe(1)
    health.endRequest('x')
    expect(shareOf(learned)).toBe(1)
  })

  test('rises with each answer while it is used, and more slowly after a refusal', () => {
    for (let n = 0; n < 20; n++) {
      begin(room())
      answered(health.inFlight('x'))
    }
    const grown = room()
    expect(grown).toBeGreaterThan(16)
    health.recordFailure('x', 'busy', 1)
    const lowered = room()
    expect(lowered).toBe(Math.ceil(grown * 0.9))
    begin(lowered)
    answered(lowered)
    expect(room()).toBeLessThanOrEqual(lowered + 1)
  })

  test('does not rise while it is not used', () => {
    for (let n = 0; n < 100; n++) {
      begin()
      answered()
    }
    expect(room()).toBe(4)
  })

  test('falls once for all requests that were sent before it fell', () => {
    const sentMs = nowMs
    nowMs += 1_000
    for (let n = 0; n < 10; n++) health.recordFailure('x', 'first_token_timeout', undefined, sentMs)
    expect(room()).toBe(4) // 3.6 requests: the fourth begins below the limit
    for (let n = 0; n < 30; n++) {
      nowMs += 1_000
      health.recordFailure('x', 'first_token_timeout')
    }
    expect(room()).toBe(1)
  })

  test('never exceeds the declared capacity, which holds for every kind of server and counts other nodes', () => {
    const declared = { isLearned: false, capacity: 2 }
    begin()
    expect(shareOf(declared)).toBe(1)
    health.adopt('x', { ...nothingLearned, inFlight: 1 })
    expect(shareOf(declared)).toBe(0)
    nowMs += 15_000
    expect(shareOf(declared)).toBe(1)
    begin()
    expect(shareOf(declared)).toBe(0)
  })
})

describe('a server that answers none of the requests that wait for it', () => {
  test('gets no more after five seconds, and again after an answer', () => {
    begin(3)
    nowMs += 4_999
    expect(shareOf(unlimited)).toBe(1)
    nowMs += 2
    expect(shareOf(unlimited)).toBe(0)
    answered()
    expect(shareOf(unlimited)).toBe(1)
  })

  test('may take three times as long as it usually does', () => {
    for (let n = 0; n < 5; n++) health.recordSuccess('x', { firstTokenMs: 4_000, totalMs: 4_000 })
    begin(3)
    nowMs += 11_999
    expect(shareOf(unlimited)).toBe(1)
    nowMs += 2
    expect(shareOf(unlimited)).toBe(0)
  })

  test('streams that have begun do not wait', () => {
    begin(5)
    for (let n = 0; n < 3; n++) health.noteContent('x')
    nowMs += 60_000
    expect(shareOf(unlimited)).toBe(1)
    begin()
    nowMs += 60_001
    expect(shareOf(unlimited)).toBe(0)
    for (let n = 0; n < 3; n++) health.endRequest('x', true)
    expect(shareOf(unlimited)).toBe(0)
    for (let n = 0; n < 3; n++) health.endRequest('x')
    expect(shareOf(unlimited)).toBe(1)
  })
})

const nothingLearned = {
  ejectedForMs: 0,
  ejectedSinceMs: 0,
  ejections: 0,
  pausedForMs: 0,
  pausedSinceMs: 0,
  inFlight: 0,
  successes: 0,
  failures: 0,
  limit: null,
  latency: null,
}

test('a pause that another node was asked for ends with a success of what was sent after it began', () => {
  const sentMs = nowMs
  nowMs += 5_000
  health.adopt('x', { ...nothingLearned, pausedForMs: 60_000, pausedSinceMs: 4_000 })
  health.recordSuccess('x', { firstTokenMs: 10 }, sentMs)
  expect(health.state('x')).toBe('ejected')
  health.recordSuccess('x', { firstTokenMs: 10 }, sentMs + 1_000)
  expect(health.state('x')).toBe('open')
})
