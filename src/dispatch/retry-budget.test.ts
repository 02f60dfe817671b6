import { expect, test } from 'vitest'
import { createRetryBudget } from './retry-budget.ts'

function world() {
  let nowMs = 5_000
  const budget = createRetryBudget({ clock: { epochMs: () => nowMs, monotonicMs: () => nowMs } })
  return {
    wait: (ms: number) => {
      nowMs += ms
    },
    requests(count: number, model = 'm', server = 's') {
      for (let n = 0; n < count; n++) budget.noteRequest(model, server)
    },
    failures(count: number, server = 's') {
      for (let n = 0; n < count; n++) budget.noteFailure(server)
    },
    freeRetries(count: number, model = 'm', server = 's') {
      for (let n = 0; n < count; n++) budget.noteFreeRetry(model, server)
    },
    isFailing: (server = 's') => budget.isFailing(server),
    /** How many of `count` retries the budget allows. */
    retries: (count: number, model = 'm', server = 's') =>
      Array.from({ length: count }, () => budget.takeRetry(model, server)).filter(used => used === null).length,
    refusal: (model = 'm', server = 's') => budget.takeRetry(model, server),
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

test('a server that fails has its own budget, whatever its models have left', () => {
  const { wait, requests, failures, retries, refusal } = world()
  requests(1_000, 'm', 'healthy')
  requests(200, 'm', 'failing')
  failures(100, 'failing')
  expect(retries(100, 'm', 'failing')).toBe(40)
  expect(refusal('m', 'failing')).toBe('server')
  expect(refusal('other', 'failing')).toBe('server')
  expect(retries(500, 'm', 'healthy')).toBe(200)
  expect(refusal('m', 'healthy')).toBe('model')
  wait(10_000)
  // Three a second are always allowed here too.
  requests(1_000, 'm', 'healthy')
  failures(5, 'failing')
  expect(retries(100, 'm', 'failing')).toBe(30)
})

test("a healthy server that is nobody's first choice replaces a failing one", () => {
  const { requests, failures, retries } = world()
  requests(1_000, 'm', 'first')
  failures(100, 'first')
  failures(3, 'second')
  expect(retries(100, 'm', 'second')).toBe(100)
})

test('a server is failing when more than a tenth of all its attempts fail', () => {
  const { wait, requests, freeRetries, retries, failures, isFailing } = world()
  expect(isFailing()).toBe(false)
  requests(50)
  expect(retries(10)).toBe(10)
  freeRetries(40)
  failures(10)
  expect(isFailing()).toBe(false)
  failures(1)
  expect([isFailing(), isFailing('other')]).toEqual([true, false])
  wait(10_000)
  expect(isFailing()).toBe(false)
})

test('retries that need no budget leave less for the others, down to three a second', () => {
  const { wait, requests, freeRetries, retries } = world()
  requests(1_000)
  freeRetries(150)
  expect(retries(500)).toBe(50)
  wait(10_000)
  requests(1_000)
  freeRetries(900)
  expect(retries(500)).toBe(30)
})
