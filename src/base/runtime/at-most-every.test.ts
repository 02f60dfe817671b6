import { expect, test } from 'vitest'
import { atMostEvery } from './at-most-every.ts'

test('calls at once in a burst, and then once for all calls within the time', () => {
  const timers: (() => void)[] = []
  const after = (_ms: number, work: () => void) => {
    timers.push(work)
    return () => {}
  }
  let calls = 0
  const call = atMostEvery({ intervalMs: 100, burst: 2 }, { after }, () => {
    calls++
  })
  const timePasses = () => timers.shift()?.()
  for (let n = 0; n < 50; n++) call()
  expect(calls).toBe(2)
  timePasses()
  expect(calls).toBe(3)
  for (let n = 0; n < 4; n++) timePasses()
  expect([calls, timers.length]).toEqual([3, 0])
  for (let n = 0; n < 50; n++) call()
  expect(calls).toBe(5)
})
