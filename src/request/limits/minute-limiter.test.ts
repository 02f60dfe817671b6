import { expect, test } from 'vitest'
import { createMinuteLimiter } from './minute-limiter.ts'

test('allows the limit in each UTC minute, however the reports are spread', () => {
  let nowMs = 0
  const limiter = createMinuteLimiter({
    requestsPerMinute: 2,
    clock: { epochMs: () => nowMs, monotonicMs: () => 0 },
  })
  const takenAt = (ms: number) => {
    nowMs = Date.UTC(2026, 10, 21, 9, 30) + ms
    limiter.take('customer', 'reports')
  }
  const refused = (retryAfterS: number) =>
    expect.objectContaining({
      ...{ code: 'rate_limit_exceeded', retryAfterS },
      message: 'The limit of 2 reports per minute is reached. Retry after the minute ends.',
    })
  takenAt(0)
  takenAt(1)
  expect(() => takenAt(2)).toThrow(refused(60))
  expect(() => takenAt(59_999)).toThrow(refused(1))
  limiter.take('another', 'reports')
  takenAt(60_000)
  takenAt(119_999)
  expect(() => takenAt(119_999)).toThrow(refused(1))
})
