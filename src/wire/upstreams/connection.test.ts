import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type IdleConnection, IdleConnections } from './connection.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

let idle: IdleConnections
beforeEach(() => {
  idle = new IdleConnections()
})

class Idle implements IdleConnection {
  older: IdleConnection | undefined = undefined
  newer: IdleConnection | undefined = undefined
  isListed = false
  isReady = false
  idleSinceTick = 0
  usableUntilMs = performance.now() + 4_000
  isClosed = false
  onReady(): void {}
  destroy(): void {
    this.isClosed = true
    idle.remove(this)
  }
}

function add(count: number): Idle[] {
  const added = Array.from({ length: count }, () => new Idle())
  for (const each of added) idle.add(each)
  return added
}

/** Lets time pass. The ticks of this time end with the turn. */
async function pass(ms: number): Promise<void> {
  vi.advanceTimersByTime(ms)
  await new Promise(setImmediate)
}

const closedOf = (connections: readonly Idle[]) => connections.flatMap(({ isClosed }, at) => (isClosed ? [at] : []))

test('a connection is ready after 250 to 275 ms', async () => {
  const [first] = add(1)
  await pass(24)
  const [second] = add(1)
  await pass(250)
  expect([first!.isReady, second!.isReady]).toEqual([false, false])
  await pass(1)
  expect([first!.isReady, second!.isReady]).toEqual([true, true])
})

test('a connection that is removed does not become ready', async () => {
  const [connection] = add(1)
  idle.remove(connection!)
  await pass(300)
  expect(connection!.isReady).toBe(false)
})

test('more than 128 connections in quarantine leave it early, the oldest first, after 50 ms or more', async () => {
  const early = add(100)
  await pass(25)
  const late = add(100)
  await pass(25)
  expect(early.some(({ isReady }) => isReady)).toBe(false)
  await pass(25)
  expect(early.filter(({ isReady }) => isReady)).toEqual(early.slice(0, 72))
  await pass(225)
  expect([...early, ...late].every(({ isReady }) => isReady)).toBe(true)
})

test('a connection that is idle for too long is closed, and without connections no timer runs', async () => {
  const [connection] = add(1)
  await pass(3_975)
  expect(connection!.isClosed).toBe(false)
  await pass(25)
  expect(connection!.isClosed).toBe(true)
  expect(vi.getTimerCount()).toBe(0)
})

test('there are 2,048 idle connections at most; another one closes the oldest', async () => {
  const connections = add(2_040)
  await pass(300)
  connections.push(...add(11))
  expect(closedOf(connections)).toEqual([0, 1, 2])
})

test('at the limit, a connection is closed itself if all others are in quarantine', () => {
  expect(closedOf(add(2_049))).toEqual([2_048])
})
