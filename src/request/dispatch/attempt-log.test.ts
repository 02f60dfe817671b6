import { expect, test } from 'vitest'
import { createRetryBudget } from './attempt-log.ts'

const offerOf = (modelId = 'm', endpointId = 's') => ({
  offerId: `${endpointId}/${modelId}`,
  modelId,
  endpoint: { endpointId },
})

function world() {
  let nowMs = 5_000
  const budget = createRetryBudget({ clock: { epochMs: () => nowMs, monotonicMs: () => nowMs } })
  const times = (count: number, note: () => void) => {
    for (let n = 0; n < count; n++) note()
  }
  return {
    wait: (ms: number) => {
      nowMs += ms
    },
    requests: (count: number, model?: string, server?: string) =>
      times(count, () => budget.noteRequest(offerOf(model, server))),
    failures: (count: number, model?: string, server?: string) =>
      times(count, () => budget.noteFailure(offerOf(model, server))),
    freeRetries: (count: number, model?: string, server?: string) =>
      times(count, () => budget.noteFreeRetry(offerOf(model, server))),
    isFailing: (model?: string, server?: string) => budget.isFailing(offerOf(model, server)),
    /** How many of `count` retries the budget allows. */
    retries: (count: number, model?: string, server?: string) =>
      Array.from({ length: count }, () => budget.takeRetry(offerOf(model, server))).filter(Boolean).length,
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
  requests(1_000, 'm', 'one')
  expect(retries(500, 'm', 'one')).toBe(200)
  expect(retries(500, 'other', 'two')).toBe(30)
})

test('the models of a server that fail share its budget, whatever the models have left', () => {
  const { wait, requests, retries } = world()
  requests(1_000, 'm', 'healthy')
  requests(200, 'm', 'failing')
  expect(retries(100, 'm', 'failing')).toBe(40)
  expect(retries(100, 'other', 'failing')).toBe(0)
  expect(retries(500, 'm', 'healthy')).toBe(200)
  wait(10_000)
  // Three a second are always allowed here too.
  requests(1_000, 'm', 'healthy')
  expect(retries(100, 'm', 'failing')).toBe(30)
})

test('an offer is failing when more than a tenth of all its attempts fail, whatever the other models of its server do', () => {
  const { wait, requests, freeRetries, retries, failures, isFailing } = world()
  expect(isFailing()).toBe(false)
  requests(50)
  expect(retries(10)).toBe(10)
  freeRetries(40)
  failures(10)
  expect(isFailing()).toBe(false)
  failures(1)
  expect([isFailing(), isFailing('m', 'other'), isFailing('other')]).toEqual([true, false, false])
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
