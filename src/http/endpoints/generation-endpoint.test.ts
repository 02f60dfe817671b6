import { expect, test } from 'vitest'
import type { WindowCounts } from '../../base/domain/windows.ts'
import { rateLimitHeaders } from './generation-endpoint.ts'

const limits = { requestsPerMinute: 20, requestsPerDay: 1_000, dailySpendCapNanos: 5_000_000_000n }
const nowMs = Date.UTC(2026, 10, 21, 9, 30, 15)
const counts = { minuteUsed: 3, dayUsed: 40, minuteEndsAtEpochMs: nowMs + 45_000, dayEndsAtEpochMs: nowMs + 52_185_000 }

test('headers have what is left, never below 0, and the seconds until the windows end', () => {
  const headers = (used: WindowCounts, atMs: number) => rateLimitHeaders(limits, used, atMs).join(' ')
  expect(headers(counts, nowMs + 1)).toBe(
    'x-ratelimit-limit-requests 20 x-ratelimit-remaining-requests 17 x-ratelimit-reset-requests 45s ' +
      'x-ratelimit-limit-requests-day 1000 x-ratelimit-remaining-requests-day 960 x-ratelimit-reset-requests-day 52185s',
  )
  // Limits may have been lowered, and the answer may be late.
  const over = headers({ ...counts, minuteUsed: 21, dayUsed: 1_001 }, counts.dayEndsAtEpochMs + 1)
  expect(over.match(/remaining-requests(-day)? 0\b/g)).toHaveLength(2)
  expect(over.match(/reset-requests(-day)? 0s/g)).toHaveLength(2)
})
