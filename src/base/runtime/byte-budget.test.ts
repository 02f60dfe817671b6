import { expect, test } from 'vitest'
import { ByteBudget } from './byte-budget.ts'

test('new requests may fill three quarters, running ones the rest', () => {
  const budget = new ByteBudget(100)
  expect(budget.freeForNewBytes).toBe(75)
  expect(budget.take(75)).toBe(true)
  expect(budget.hasRoomForNew).toBe(false)
  expect(budget.freeForNewBytes).toBe(0)
  expect(budget.take(25)).toBe(true)
  expect(budget.take(1)).toBe(false)
  expect(budget.usedBytes).toBe(100)
  budget.give(26)
  expect(budget.hasRoomForNew).toBe(true)
  expect(budget.freeForNewBytes).toBe(1)
})
