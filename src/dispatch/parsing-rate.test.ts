import { afterEach, expect, test, vi } from 'vitest'
import { ParsingRate } from './parsing-rate.ts'

afterEach(() => vi.restoreAllMocks())

test('beyond the share of a second, the rest of that second must pass', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(5_000)
  const rate = new ParsingRate()
  expect(rate.waitMs(131_072)).toBe(0)
  now.mockReturnValue(5_250)
  expect(rate.waitMs(131_073)).toBe(750)
  now.mockReturnValue(6_000)
  expect(rate.waitMs(140_000)).toBe(0)
  expect(rate.waitMs(140_000 + 131_072)).toBe(0)
  expect(rate.waitMs(140_000 + 131_073)).toBe(1_000)
})
