import { expect, test } from 'vitest'
import { createPeriodicWork } from './periodic-work.ts'

/** A scheduler with at most one timer, which the test fires. */
function manualTimer() {
  let due: (() => void) | undefined
  return {
    isSet: () => due !== undefined,
    fire() {
      const work = due
      due = undefined
      work?.()
    },
    scheduler: {
      after(_ms: number, work: () => void) {
        due = work
        return () => {
          due = undefined
        }
      },
    },
  }
}

test('goes on after failures, and logs the first of several in a row', async () => {
  const timer = manualTimer()
  const warnings: string[] = []
  const outcomes = ['fails', 'fails', 'works', 'fails']
  const work = createPeriodicWork({
    work: async () => {
      if (outcomes.shift() === 'fails') throw new Error('no database')
    },
    everyMs: 1_000,
    failure: 'could not read; trying again',
    scheduler: timer.scheduler,
    log: { warn: (_fields, message) => warnings.push(message) },
  })
  work.start()
  const logged: number[] = []
  while (outcomes.length > 0) {
    timer.fire()
    await expect.poll(timer.isSet).toBe(true)
    logged.push(warnings.length)
  }
  expect(logged).toEqual([1, 1, 1, 2])
  await work.stop()
  expect(timer.isSet()).toBe(false)
})

test('never works twice at once, and a stop waits for the work that is running', async () => {
  const timer = manualTimer()
  const { promise, resolve } = Promise.withResolvers<void>()
  const work = createPeriodicWork({
    work: () => promise,
    everyMs: 1_000,
    failure: '',
    scheduler: timer.scheduler,
    log: { warn: () => {} },
  })
  work.start()
  timer.fire()
  expect(timer.isSet()).toBe(false)
  let isStopped = false
  const stopped = work.stop().then(() => {
    isStopped = true
  })
  await Promise.resolve()
  expect(isStopped).toBe(false)
  resolve()
  await stopped
  expect(timer.isSet()).toBe(false)
})
