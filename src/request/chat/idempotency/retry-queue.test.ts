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
  const dropped: unknown[] = []
  let isUnavailable = true
  const queue = new RetryQueue(
    scheduler,
    error => error === unavailable,
    error => dropped.push(error),
  )
  const work = (name: string) => async () => {
    if (isUnavailable) throw unavailable
    if (name.startsWith('refused')) throw new Error(name)
    done.push(name)
  }
  for (const name of ['first', 'refused', 'refused again', 'second']) queue.add(work(name))
  await pass(0)
  await pass(1_000)
  expect(done).toEqual([])
  isUnavailable = false
  await pass(1_000)
  expect(done).toEqual(['first', 'second'])
  // The first of several in a row.
  expect(dropped).toEqual([new Error('refused')])
  queue.add(work('refused later'))
  await pass(0)
  expect(dropped).toEqual([new Error('refused'), new Error('refused later')])
  queue.add(work('third'))
  queue.addLater(60_000, work('later'))
  await pass(59_999)
  expect(done).toEqual(['first', 'second', 'third'])
  await pass(1)
  expect(done).toEqual(['first', 'second', 'third', 'later'])
  expect(timers.size).toBe(0)
})

test('work that finds the queue full is dropped, which is reported once', async () => {
  const { scheduler, pass } = manualTime()
  const dropped: unknown[] = []
  let done = 0
  let isUnavailable = true
  const queue = new RetryQueue(
    scheduler,
    () => true,
    error => dropped.push(error),
  )
  for (let n = 0; n < 10_002; n++) {
    queue.add(async () => {
      if (isUnavailable) throw new Error('unavailable')
      done++
    })
  }
  expect(dropped).toEqual([new Error('10000 writes wait for the database')])
  await pass(0)
  isUnavailable = false
  await pass(1_000)
  expect(done).toBe(10_000)
})

test('a stopped queue runs no work and leaves no timer', async () => {
  const { scheduler, timers, pass } = manualTime()
  let tries = 0
  const queue = new RetryQueue(
    scheduler,
    () => true,
    () => {},
  )
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
