import { afterEach, expect, test, vi } from 'vitest'
import { RatePool } from '../../base/runtime/rate-pool.ts'
import { ParsingRate } from './open-stream.ts'

afterEach(() => vi.restoreAllMocks())

test('streams share the pool of their endpoint, and each has a share of its own', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0)
  const pool = new RatePool(100_000, 10_000)
  const [one, other, slow] = [new ParsingRate(pool), new ParsingRate(pool), new ParsingRate(pool)]
  expect(one.waitMs(4_096)).toBe(0)
  expect(one.waitMs(10_000)).toBe(0)
  // The pool is empty now.
  expect(other.waitMs(5_000)).toBe(50)
  expect(one.waitMs(15_000)).toBe(100)
  now.mockReturnValue(1_000)
  expect(slow.waitMs(8_000)).toBe(0)
  // Neither share can be saved up for long.
  now.mockReturnValue(60_000)
  expect(one.waitMs(15_000 + 8_192 + 10_000)).toBe(0)
  expect(other.waitMs(5_000 + 8_192 + 1_000)).toBe(10)
})
