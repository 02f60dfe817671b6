import { describe, expect, it } from 'vitest'
import { ExchangeTimer } from './exchange-timer.ts'

const limits = { connectMs: 1_000, firstByteMs: 60_000, idleMs: 30_000, totalMs: 600_000 }
const patient = { ...limits, thinkingMs: 300_000 }

/** Whether a limit is exceeded so many seconds after the timer entered its phase. */
function failsAfter(timer: ExchangeTimer, seconds: number): boolean {
  return timer.check(performance.now() + seconds * 1_000, false) !== null
}

// one-hub issue 652, pi issue 690, suna issue 3696: models think for minutes before their first text.
describe('a server that thinks', () => {
  it('has the first-token limit until its first sign of life, and then a longer one between two of them', () => {
    const timer = new ExchangeTimer(patient)
    timer.enter('waiting')
    expect([failsAfter(timer, 59), failsAfter(timer, 61)]).toEqual([false, true])
    timer.enter('thinking')
    expect([failsAfter(timer, 299), failsAfter(timer, 301)]).toEqual([false, true])
    timer.enter('receiving')
    expect([failsAfter(timer, 29), failsAfter(timer, 31)]).toEqual([false, true])
  })

  it('has no longer than the total limit', () => {
    const timer = new ExchangeTimer({ ...patient, totalMs: 100_000 })
    timer.enter('thinking')
    expect([failsAfter(timer, 99), failsAfter(timer, 101)]).toEqual([false, true])
  })
})
