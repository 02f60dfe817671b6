import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { RetryQueue } from './retry-queue.ts'

/** Time that passes when the test says so. */
function scripted() {
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

test('what fails is done again, in its order, until it succeeds; what is refused is given up', async () => {
  const { scheduler, timers, pass } = scripted()
  const away = new Error('away')
  const done: string[] = []
  let isAway = true
  const insisting = new RetryQueue(scheduler, error => error === away)
  const work = (name: string) => async () => {
    if (isAway) throw away
    if (name === 'refused') throw new Error('refused')
    done.push(name)
  }
  for (const name of ['first', 'refused', 'second']) insisting.add(work(name))
  await pass(0)
  await pass(1_000)
  expect(done).toEqual([])
  isAway = false
  await pass(1_000)
  expect(done).toEqual(['first', 'second'])
  insisting.add(work('third'))
  insisting.addLater(60_000, work('later'))
  await pass(59_999)
  expect(done).toEqual(['first', 'second', 'third'])
  await pass(1)
  expect(done).toEqual(['first', 'second', 'third', 'later'])
  expect(timers.size).toBe(0)
})

test('after its end nothing is done, and no timer is left', async () => {
  const { scheduler, timers, pass } = scripted()
  let tries = 0
  const insisting = new RetryQueue(scheduler, () => true)
  insisting.add(() => {
    tries++
    return Promise.reject(new Error('away'))
  })
  insisting.addLater(1_000, async () => void tries++)
  await pass(0)
  expect([tries, timers.size]).toEqual([1, 2])
  insisting.stop()
  insisting.add(async () => void tries++)
  await pass(60_000)
  expect([tries, timers.size]).toEqual([1, 0])
})
