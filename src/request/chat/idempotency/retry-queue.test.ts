import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { RetryQueue } from './retry-queue.ts'

/** Returns a scheduler for which time passes only in `pass`. */
function manualTime() {
  let nowMs = 0
  const timers = new Set<{ atMs: number; work: () => void }>()
  return {
    scheduler: {
      after(ms: number, work: () => void) {
        const timer = { atMs: nowMs + ms, work }
        timers.add(timer)
        return () => timers.delete(timer)
      },
    },
    timers,
    async pass(ms: number) {
      nowMs += ms
      for (const timer of timers) {
        if (timer.atMs > nowMs) continue
        timers.delete(timer)
        timer.work()
      }
      await setImmediate()
    },
  }
}

test('failed work is retried in order until it succeeds; refused work is dropped', async () => {
  const { scheduler, timers, pass } = manualTime()
  const unavailable = new Error('unavailable')
  const done: string[] = []
  let isUnavailable = true
  const queue = new RetryQueue(scheduler, error => error === unavailable)
  const work = (name: string) => async () => {
    if (isUnavailable) throw unavailable
    if (name === 'refused') throw new Error('refused')
    done.push(name)
  }
  for (const name of ['first', 'refused', 'second']) queue.add(work(name))
  await pass(0)
  await pass(1_000)
  expect(done).toEqual([])
  isUnavailable = false
  await pass(1_000)
  expect(done).toEqual(['first', 'second'])
  queue.add(work('third'))
  queue.addLater(60_000, work('later'))
  await pass(59_999)
  expect(done).toEqual(['first', 'second', 'third'])
  await pass(1)
  expect(done).toEqual(['first', 'second', 'third', 'later'])
  expect(timers.size).toBe(0)
})

test('a stopped queue runs no work and leaves no timer', async () => {
  const { scheduler, timers, pass } = manualTime()
  let tries = 0
  const queue = new RetryQueue(scheduler, () => true)
  queue.add(() => {
    tries++
    return Promise.reject(new Error('unavailable'))
  })
  queue.addLater(1_000, async () => void tries++)
  await pass(0)
  expect([tries, timers.size]).toEqual([1, 2])
  queue.stop()
  queue.add(async () => void tries++)
  await pass(60_000)
  expect([tries, timers.size]).toEqual([1, 0])
})
