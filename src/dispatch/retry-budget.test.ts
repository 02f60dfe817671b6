import { expect, test } from 'vitest'
import { createRetryBudget } from './retry-budget.ts'

function world() {
  let nowMs = 5_000
  const budget = createRetryBudget({ clock: { epochMs: () => nowMs, monotonicMs: () => nowMs } })
  return {
    wait: (ms: number) => {
      nowMs += ms
    },
    requests(count: number, model = 'm') {
      for (let n = 0; n < count; n++) budget.noteRequest(model)
    },
    /** How many of `count` retries the budget allows. */
    retries: (count: number, model = 'm') =>
      Array.from({ length: count }, () => budget.takeRetry(model)).filter(Boolean).length,
  }
}

test('a fifth of the requests of the last ten seconds may be retries', () => {
  const { wait, requests, retries } = world()
  for (let second = 0; second < 10; second++) {
    requests(100)
    wait(1_000)
  }
  // The oldest of these seconds is ten seconds ago.
  expect(retries(1_000)).toBe(180)
  wait(10_000)
  requests(1_000)
  expect(retries(1_000)).toBe(200)
})

test('three retries a second are always allowed', () => {
  const { wait, retries } = world()
  expect(retries(100)).toBe(30)
  wait(9_000)
  expect(retries(100)).toBe(0)
  wait(1_000)
  expect(retries(100)).toBe(30)
  wait(3_600_000)
  expect(retries(100)).toBe(30)
})

test('each model has its own budget', () => {
  const { requests, retries } = world()
  requests(1_000)
  expect(retries(500)).toBe(200)
  expect(retries(500, 'other')).toBe(30)
})
