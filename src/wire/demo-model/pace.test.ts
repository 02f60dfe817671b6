import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { pace } from './pace.ts'

const clock = { epochMs: () => Date.now(), monotonicMs: () => performance.now() }
const never = (error: unknown) => expect.unreachable(String(error))

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('pace', () => {
  test('waits for the first token, then keeps the speed', async () => {
    let tokens = 0
    pace(
      clock,
      { firstTokenMs: 300, tokensPerSecond: 50 },
      due => {
        tokens += due
        return tokens < 500
      },
      never,
    )
    await vi.advanceTimersByTimeAsync(299)
    expect(tokens).toBe(0)
    await vi.advanceTimersByTimeAsync(1)
    expect(tokens).toBe(1)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(tokens).toBe(51)
  })

  test('catches up after a slow step', async () => {
    const dues: number[] = []
    const { promise: full, resolve: drained } = Promise.withResolvers<boolean>()
    pace(
      clock,
      { firstTokenMs: 0, tokensPerSecond: 100 },
      due => {
        dues.push(due)
        return dues.length === 1 ? full : dues.length < 3
      },
      never,
    )
    await vi.advanceTimersByTimeAsync(1_000)
    expect(dues).toEqual([1])
    drained(true)
    await vi.advanceTimersByTimeAsync(10)
    expect(dues[1]).toBeGreaterThanOrEqual(100)
  })

  test('sends everything immediately at infinite speed', async () => {
    const dues: number[] = []
    pace(
      clock,
      { firstTokenMs: 0, tokensPerSecond: Number.POSITIVE_INFINITY },
      due => {
        dues.push(due)
        return false
      },
      never,
    )
    await vi.advanceTimersByTimeAsync(0)
    expect(dues).toEqual([Number.POSITIVE_INFINITY])
  })

  test('does nothing after it is stopped', async () => {
    let steps = 0
    const stop = pace(
      clock,
      { firstTokenMs: 0, tokensPerSecond: 100 },
      () => {
        steps += 1
        return true
      },
      never,
    )
    await vi.advanceTimersByTimeAsync(50)
    stop()
    const before = steps
    await vi.advanceTimersByTimeAsync(1_000)
    expect(steps).toBe(before)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('passes the error of a step to `onError`', async () => {
    const failures: unknown[] = []
    pace(
      clock,
      { firstTokenMs: 0, tokensPerSecond: 100 },
      () => {
        throw new Error('broken')
      },
      error => failures.push(error),
    )
    await vi.advanceTimersByTimeAsync(0)
    expect(failures).toHaveLength(1)
    expect(vi.getTimerCount()).toBe(0)
  })
})
