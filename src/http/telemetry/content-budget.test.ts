import { expect, test } from 'vitest'
import { ContentBudget } from './content-budget.ts'

const HALF = 9 * 1024 * 1024

test('texts beyond the budget wait in no span, until those before them are exported', () => {
  const budget = new ContentBudget()
  expect(budget.take(HALF)).toBe(true)
  expect(budget.take(HALF)).toBe(false)
  budget.release(HALF, false)
  expect(budget.take(HALF)).toBe(true)
})

test('spans that were dropped are forgotten when no other waits', () => {
  const budget = new ContentBudget()
  expect(budget.take(HALF)).toBe(true)
  budget.release(0, true)
  expect(budget.take(HALF)).toBe(true)
})
