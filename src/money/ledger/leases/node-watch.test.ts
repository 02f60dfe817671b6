import { expect, test } from 'vitest'
import { NodeWatch } from './node-watch.ts'

const LATENCY_MS = 10

/** A watch that looks once a second at a node `a`, and the time of its clock. */
function createWatching() {
  const watch = new NodeWatch()
  let nowMs = 0
  return {
    watch,
    look(heartbeats: number, afterMs = 1_000) {
      nowMs += afterMs
      watch.look([{ nodeId: 'a', heartbeats }], nowMs - LATENCY_MS, nowMs)
    },
  }
}

test('a node is silent while the number of its heartbeats stays the same', () => {
  const { watch, look } = createWatching()
  for (let heartbeats = 1; heartbeats <= 100; heartbeats++) look(heartbeats)
  expect(watch.isSilent('a', 1)).toBe(false)
  for (let second = 0; second < 10; second++) look(100)
  expect(watch.isSilent('a', 9_900)).toBe(true)
  expect(watch.isSilent('a', 10_000)).toBe(false)
  expect(watch.silentNodes(9_900)).toEqual([{ nodeId: 'a', heartbeats: 100 }])
  look(101)
  expect(watch.silentNodes(1)).toEqual([])
})

test('a number that goes back, after a failover that lost transactions, is a heartbeat too', () => {
  const { watch, look } = createWatching()
  look(100)
  look(100)
  look(97)
  expect(watch.isSilent('a', 1)).toBe(false)
})

test('time in which nobody looked is no silence: PostgreSQL was down, or this process was paused', () => {
  const { watch, look } = createWatching()
  look(1)
  look(1, 600_000)
  expect(watch.isSilent('a', 5_001)).toBe(false)
})

test('silence begins when the last heartbeat was read, however long that took', () => {
  const watch = new NodeWatch()
  watch.look([{ nodeId: 'a', heartbeats: 1 }], 0, 6_000)
  watch.look([{ nodeId: 'a', heartbeats: 1 }], 7_000, 7_010)
  expect(watch.isSilent('a', 1_000)).toBe(true)
  expect(watch.isSilent('a', 1_001)).toBe(false)
})

test('a node that was never seen, or has been declared dead, is not silent', () => {
  const { watch, look } = createWatching()
  look(1)
  look(1)
  watch.look([], 3_000, 3_010)
  expect(watch.isSilent('a', 0)).toBe(false)
  expect(watch.isSilent('b', 0)).toBe(false)
})
