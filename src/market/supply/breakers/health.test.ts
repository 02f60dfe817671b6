import { beforeEach, describe, expect, test } from 'vitest'
import { createHealth } from './health.ts'
import type { HealthEvent } from './offer-report.ts'

let nowMs: number
let events: HealthEvent[]
let health: ReturnType<typeof createHealth>

beforeEach(() => {
  nowMs = 1_000_000
  events = []
  // 0.5 is the middle of the jitter: ejections last exactly 5 s x 2^k.
  health = createHealth({
    clock: { epochMs: () => nowMs, monotonicMs: () => nowMs },
    random: () => 0.5,
    onEvent: event => events.push(event),
  })
})

const fail = (times: number, outcome: Parameters<typeof health.recordFailure>[1] = 'server_error') => {
  for (let n = 0; n < times; n++) health.recordFailure('x', outcome)
}
const succeed = (times: number) => {
  for (let n = 0; n < times; n++) health.recordSuccess('x', { firstTokenMs: 10 })
}

describe('the breaker', () => {
  test('an unknown offer is open', () => {
    expect(health.state('x')).toBe('open')
    expect(health.ejectedForMs('x')).toBe(0)
    expect(health.inFlight('x')).toBe(0)
  })

  test.each([
    ['server_error', 5],
    ['first_token_timeout', 5],
    ['malformed', 5],
    ['empty', 5],
    ['connect_failed', 3],
  ] as const)('%s ejects after %i in a row', (outcome, times) => {
    fail(times - 1, outcome)
    expect(health.state('x')).toBe('open')
    fail(1, outcome)
    expect(health.state('x')).toBe('ejected')
    expect(health.ejectedForMs('x')).toBe(5_000)
    expect(events).toEqual([{ event: 'ejected', offerId: 'x', forMs: 5_000 }])
    expect(health.state('y')).toBe('open')
  })

  test('a success resets the count of faults', () => {
    fail(4)
    succeed(1)
    fail(4)
    expect(health.state('x')).toBe('open')
  })

  test.each(['request_rejected', 'not_sent', 'cancelled'] as const)(
    '%s is the fault of the caller and does not count',
    outcome => {
      fail(100, outcome)
      expect(health.state('x')).toBe('open')
    },
  )

  test('ten failures among twenty requests within a minute eject, even without five in a row', () => {
    for (let n = 0; n < 9; n++) {
      succeed(1)
      fail(1)
    }
    expect(health.state('x')).toBe('open')
    succeed(1)
    fail(1)
    expect(health.state('x')).toBe('ejected')
  })

  test('a failure rate of one third does not eject, and no restore is reported', () => {
    for (let n = 0; n < 10; n++) {
      succeed(2)
      fail(1)
    }
    succeed(10)
    expect(health.state('x')).toBe('open')
    expect(events).toEqual([])
  })

  test('failures of an earlier minute do not count', () => {
    for (let n = 0; n < 9; n++) {
      succeed(1)
      fail(1)
    }
    nowMs += 61_000
    succeed(1)
    fail(1)
    expect(health.state('x')).toBe('open')
  })

  test('after an ejection one request at a time may probe, and three successes end the trial', () => {
    fail(5)
    nowMs += 5_000
    for (let probe = 1; probe <= 3; probe++) {
      expect(health.state('x')).toBe('probing')
      health.beginRequest('x')
      expect(health.state('x')).toBe('ejected')
      expect(health.ejectedForMs('x')).toBe(1)
      succeed(1)
      health.endRequest('x')
    }
    expect(health.state('x')).toBe('open')
    expect(events.map(({ event }) => event)).toEqual(['ejected', 'restored'])
  })

  test('a probe that ends without an answer lets another one start', () => {
    fail(5)
    nowMs += 5_000
    health.beginRequest('x')
    health.recordFailure('x', 'cancelled')
    health.endRequest('x')
    expect(health.state('x')).toBe('probing')
  })

  test('a failed probe doubles the ejection, up to five minutes', () => {
    fail(5)
    const times = [health.ejectedForMs('x')]
    for (let n = 0; n < 7; n++) {
      nowMs += health.ejectedForMs('x')
      fail(1)
      times.push(health.ejectedForMs('x'))
    }
    expect(times).toEqual([5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000])
  })

  test('failures of requests sent before the ejection do not prolong it', () => {
    fail(5)
    nowMs += 2_000
    fail(3)
    expect(health.ejectedForMs('x')).toBe(3_000)
  })

  test('results of requests sent before the ejection neither end the trial nor eject again', () => {
    const sentMs = nowMs - 1_000
    fail(5)
    for (let n = 0; n < 3; n++) health.recordSuccess('x', { firstTokenMs: 10 }, sentMs)
    expect(health.ejectedForMs('x')).toBe(5_000)
    nowMs += 5_000
    for (let n = 0; n < 5; n++) health.recordFailure('x', 'first_token_timeout', undefined, sentMs)
    expect(health.state('x')).toBe('probing')
    succeed(2)
    health.recordFailure('x', 'first_token_timeout', undefined, sentMs)
    succeed(1)
    expect(health.state('x')).toBe('open')
    expect(events.map(({ event }) => event)).toEqual(['ejected', 'restored'])
  })

  test('every ten healthy seconds forgive one ejection', () => {
    fail(5)
    for (let n = 0; n < 3; n++) {
      nowMs += health.ejectedForMs('x')
      fail(1)
    }
    nowMs += health.ejectedForMs('x')
    succeed(3)
    nowMs += 20_000
    fail(5)
    // Four earlier ejections, two of them forgiven: 5 s x 2².
    expect(health.ejectedForMs('x')).toBe(20_000)
  })

  test('successes as a last resort end an ejection too', () => {
    fail(5)
    succeed(3)
    expect(health.state('x')).toBe('open')
  })

  test('the jitter is plus or minus half', () => {
    for (const [random, forMs] of [
      [0, 2_500],
      [0.999, 7_495],
    ] as const) {
      const other = createHealth({ clock: { epochMs: () => 0, monotonicMs: () => nowMs }, random: () => random })
      for (let n = 0; n < 5; n++) other.recordFailure('x', 'server_error')
      expect(Math.round(other.ejectedForMs('x'))).toBe(forMs)
    }
  })

  test('failures before an ejection no longer count after it', () => {
    fail(20)
    nowMs += 5_000
    succeed(3)
    fail(1)
    expect(health.state('x')).toBe('open')
  })

  test('a failure as a last resort resets the count of successes', () => {
    fail(5)
    succeed(2)
    fail(1)
    succeed(2)
    expect(health.state('x')).toBe('ejected')
    succeed(1)
    expect(health.state('x')).toBe('open')
  })
})

describe('busy', () => {
  test('pauses for as long as the server asks, without touching the breaker', () => {
    health.recordFailure('x', 'busy', 7)
    expect(health.state('x')).toBe('ejected')
    expect(health.ejectedForMs('x')).toBe(7_000)
    nowMs += 7_000
    expect(health.state('x')).toBe('open')
    expect(events).toEqual([])
  })

  test('doubles the pause without Retry-After, up to five minutes', () => {
    const pauses: number[] = []
    for (let n = 0; n < 10; n++) {
      health.recordFailure('x', 'busy')
      pauses.push(health.ejectedForMs('x'))
      nowMs += health.ejectedForMs('x')
    }
    expect(pauses.slice(0, 3)).toEqual([1_000, 2_000, 4_000])
    expect(pauses.at(-1)).toBe(300_000)
    health.recordFailure('x', 'busy', 86_400)
    expect(health.ejectedForMs('x')).toBe(300_000)
  })

  test('ignores a Retry-After of 0', () => {
    health.recordFailure('x', 'busy', 0)
    expect(health.ejectedForMs('x')).toBe(1_000)
    health.recordFailure('x', 'busy', 0, nowMs - 1)
    nowMs += 1_000
    health.recordFailure('x', 'busy', 0)
    expect(health.ejectedForMs('x')).toBe(2_000)
  })

  test('starts again with the shortest pause after a success', () => {
    for (let n = 0; n < 3; n++) {
      health.recordFailure('x', 'busy')
      nowMs += health.ejectedForMs('x')
    }
    succeed(1)
    health.recordFailure('x', 'busy')
    expect(health.ejectedForMs('x')).toBe(1_000)
  })

  test('counts a refused burst as one refusal, unless the server names a pause', () => {
    const sentMs = nowMs
    nowMs += 5
    for (let n = 0; n < 10; n++) {
      health.recordFailure('x', 'busy', undefined, sentMs)
      nowMs += 1
    }
    expect(health.ejectedForMs('x')).toBe(990)
    nowMs += 990
    expect(health.state('x')).toBe('open')
    health.recordFailure('x', 'busy', undefined, sentMs)
    expect(health.state('x')).toBe('open')
    health.recordFailure('x', 'busy', 3, sentMs)
    expect(health.ejectedForMs('x')).toBe(3_000)
    nowMs += 3_000
    health.recordFailure('x', 'busy')
    expect(health.ejectedForMs('x')).toBe(2_000)
  })

  test('keeps the longer of two pauses', () => {
    health.recordFailure('x', 'busy', 60)
    health.recordFailure('x', 'busy', 1)
    expect(health.ejectedForMs('x')).toBe(60_000)
  })
})

test('a refused credential ejects at once, for five minutes, and notifies the operator', () => {
  health.recordFailure('x', 'credential_rejected')
  expect(health.ejectedForMs('x')).toBe(300_000)
  expect(events).toEqual([{ event: 'credential_rejected', offerId: 'x', forMs: 300_000 }])
})

test('requests in flight are counted', () => {
  health.beginRequest('x')
  health.beginRequest('x')
  health.endRequest('x')
  expect(health.inFlight('x')).toBe(1)
  health.endRequest('x')
  health.endRequest('x')
  expect(health.inFlight('x')).toBe(0)
})

test('memory is bounded: the least recently used record is dropped', () => {
  for (let n = 0; n < 5; n++) health.recordFailure('old', 'server_error')
  nowMs += 1
  for (let n = 0; n < 10_000; n++) health.recordSuccess(`offer-${n}`, { firstTokenMs: 1 })
  expect(health.state('old')).toBe('open')
})

test('memory is bounded: a record just used is kept', () => {
  for (let n = 0; n < 5; n++) health.recordFailure('first', 'server_error')
  nowMs += 1
  for (let n = 1; n < 10_000; n++) health.recordSuccess(`offer-${n}`, { firstTokenMs: 1 })
  nowMs += 1
  health.recordFailure('first', 'server_error')
  health.recordSuccess('one more', { firstTokenMs: 1 })
  expect(health.state('first')).toBe('ejected')
})

describe('latency', () => {
  const stream = { stream: true, outputTokens: null }
  const whole = { stream: false, outputTokens: null }

  test('is unknown with fewer than five samples, and again ten minutes later', () => {
    succeed(4)
    expect(health.predictMs('x', stream)).toBe(null)
    succeed(1)
    expect(health.predictMs('x', stream)).toBe(10)
    nowMs += 600_001
    expect(health.predictMs('x', stream)).toBe(null)
  })

  test('a peak counts at once and fades over about ten seconds', () => {
    succeed(5)
    health.recordSuccess('x', { firstTokenMs: 1_000 })
    expect(health.predictMs('x', stream)).toBe(1_000)
    nowMs += 10_000
    succeed(1)
    expect(health.predictMs('x', stream)).toBeCloseTo(10 + 990 / Math.E, 5)
  })

  test('a whole answer takes the first token plus the usual or allowed number of others', () => {
    for (let n = 0; n < 5; n++) {
      nowMs += 100
      health.recordSuccess('x', { firstTokenMs: 200, totalMs: 1_190, outputTokens: 100 })
    }
    expect(health.predictMs('x', stream)).toBeCloseTo(200)
    expect(health.predictMs('x', whole)).toBeCloseTo(1_190)
    expect(health.predictMs('x', { stream: false, outputTokens: 11 })).toBeCloseTo(300)
  })

  test('answers in one piece predict whole answers and bound the first token', () => {
    for (let n = 0; n < 5; n++) health.recordSuccess('x', { firstTokenMs: 900, totalMs: 900, outputTokens: 50 })
    expect(health.predictMs('x', whole)).toBe(900)
    expect(health.predictMs('x', stream)).toBe(900)
  })

  test('streams of an hour ago no longer count although whole answers are measured', () => {
    for (let n = 0; n < 5; n++) health.recordSuccess('x', { firstTokenMs: 20_000, totalMs: 40_000, outputTokens: 200 })
    nowMs += 3_600_000
    for (let n = 0; n < 5; n++) health.recordSuccess('x', { firstTokenMs: 800, totalMs: 800, outputTokens: 200 })
    expect(health.predictMs('x', whole)).toBe(800)
    expect(health.predictMs('x', stream)).toBe(800)
  })

  test('first tokens alone predict no whole answers', () => {
    succeed(5)
    expect(health.predictMs('x', whole)).toBe(null)
  })
})
