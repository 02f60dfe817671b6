import { expect, test } from 'vitest'
import { createCrashLimit } from './crash-limit.ts'

test('each crash of a worker doubles its delay, up to 5 s', () => {
  const limit = createCrashLimit({ workers: 64 })
  expect(Array.from({ length: 8 }, () => limit.crashed(1, 0))).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000])
  expect(limit.crashed(2, 0)).toBe(100)
})

test('all workers together may crash once each and four more times in a minute', () => {
  const limit = createCrashLimit({ workers: 3 })
  const crashes = [1, 2, 3, 1, 2, 3, 1].map(worker => limit.crashed(worker, 1_000))
  expect(crashes).not.toContain(null)
  expect(limit.crashed(2, 60_999)).toBe(null)
})

test('crashes older than a minute do not count', () => {
  const limit = createCrashLimit({ workers: 1 })
  for (let minute = 0; minute < 100; minute++) expect(limit.crashed(1, minute * 60_000)).toBe(100)
})
