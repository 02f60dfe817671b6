import { expect, test } from 'vitest'
import { ByteBudget } from '../runtime/byte-budget.ts'
import { createInFlight } from './in-flight.ts'

test('a request gives all of its memory back when it leaves, and takes none afterwards', () => {
  const memory = new ByteBudget(100)
  const inFlight = createInFlight({ max: 10, memory })
  const first = inFlight.enter()
  const second = inFlight.enter()
  expect(first.memory.take(60)).toBe(true)
  expect(second.memory.take(30)).toBe(true)
  expect(first.memory.take(20)).toBe(false)
  first.memory.give(10)
  expect(memory.usedBytes).toBe(80)
  expect(inFlight.enter().refusal).toMatchObject({ code: 'overloaded', message: expect.stringContaining('memory') })
  first.leave()
  first.memory.give(50)
  expect(first.memory.take(1)).toBe(false)
  expect(memory.usedBytes).toBe(30)
  expect(inFlight.enter().refusal).toBeNull()
})
