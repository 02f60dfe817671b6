import { describe, expect, test } from 'vitest'
import { ByteBudget } from '../base/runtime/counted-memory.ts'
import { createInFlight } from './in-flight.ts'

const overloaded = (part: string) => ({ code: 'overloaded', message: expect.stringContaining(part) })

test('a request gives all of its memory back when it leaves, and takes none afterwards', () => {
  const memory = new ByteBudget(100)
  const inFlight = createInFlight({ max: 10, memory })
  const [first, second] = [inFlight.open('ada'), inFlight.open('bob')]
  for (const request of [first, second]) expect(request.start(0)).toBeNull()
  expect(first.memory.take(45)).toBe(true)
  expect(second.memory.take(30)).toBe(true)
  expect(first.memory.take(20)).toBe(false)
  expect(memory.usedBytes).toBe(75)
  expect(inFlight.open('cem').start(0)).toMatchObject(overloaded('memory'))
  first.memory.give(10)
  first.leave()
  first.memory.give(50)
  expect(first.memory.take(1)).toBe(false)
  expect(memory.usedBytes).toBe(30)
  expect(inFlight.open('cem').start(0)).toBeNull()
})

test('an answer that the client has not read counts until it is read', () => {
  const memory = new ByteBudget(1_000)
  const inFlight = createInFlight({ max: 10, memory })
  const request = inFlight.open('ada')
  expect(request.start(0)).toBeNull()
  expect(request.memory.take(300)).toBe(true)
  let onRead = () => {}
  request.leave({
    bytes: 200,
    onceRead(listener) {
      onRead = listener
    },
  })
  expect([inFlight.count, memory.usedBytes]).toEqual([0, 200])
  // The answer itself is freed when the request ends.
  request.memory.give(300)
  expect(memory.usedBytes).toBe(200)
  onRead()
  expect(memory.usedBytes).toBe(0)
})

describe('one customer never takes everything', () => {
  test('alone it runs three quarters of the places, with others fewer, and others always get some', () => {
    const inFlight = createInFlight({ max: 2_000, memory: new ByteBudget(100) })
    const startAll = (customerId: string) => {
      let running = 0
      for (let tried = 0; tried < 2_000; tried++) if (inFlight.open(customerId).start(0) === null) running++
      return running
    }
    expect([startAll('ada'), startAll('bob'), startAll('cem'), startAll('dan')]).toEqual([1_500, 375, 94, 24])
    expect(inFlight.open('ada').start(0)).toMatchObject({
      code: 'too_many_concurrent_requests',
      message: expect.stringContaining('Your account already runs 1500 requests'),
    })
  })

  test('a place that becomes free goes to the customer with fewer', () => {
    const inFlight = createInFlight({ max: 8, memory: new ByteBudget(100) })
    const running = Array.from({ length: 6 }, () => inFlight.open('ada'))
    for (const request of running) expect(request.start(0)).toBeNull()
    expect(inFlight.open('ada').start(0)).not.toBeNull()
    expect(inFlight.open('bob').start(0)).toBeNull()
    running[0]!.leave()
    running[1]!.leave()
    expect(inFlight.open('bob').start(0)).toBeNull()
    expect(inFlight.count).toBe(6)
  })

  test('alone its bodies get half of the memory, and its answers two thirds', () => {
    const memory = new ByteBudget(1_200)
    const inFlight = createInFlight({ max: 10, memory })
    const [first, second, third] = [inFlight.open('ada'), inFlight.open('ada'), inFlight.open('ada')]
    expect(first.memory.take(600)).toBe(true)
    expect(second.memory.take(1)).toBe(false)
    expect(first.start(0)).toBeNull()
    expect(first.memory.take(200)).toBe(true)
    expect(first.memory.take(1)).toBe(false)
    expect(inFlight.open('bob').memory.take(66)).toBe(true)
    first.leave()
    expect(third.memory.take(500)).toBe(true)
  })

  test('the share of a customer with requests outlives those of 30,000 without', () => {
    const inFlight = createInFlight({ max: 100_000, memory: new ByteBudget(100) })
    const ada = inFlight.open('ada')
    expect(ada.start(0)).toBeNull()
    for (let n = 0; n < 30_000; n++) inFlight.open(`customer-${n}`).leave()
    expect(ada.memory.take(66)).toBe(true)
    expect(inFlight.open('ada').memory.take(1)).toBe(false)
  })
})
