import { expect, it } from 'vitest'
import { ByteBudget } from '../../base/runtime/counted-memory.ts'
import { KeptResponse, KeptResponses } from './kept-responses.ts'

/** A budget of 3,200 bytes leaves 400 to conversations, and 100 to one customer. */
const budgetOf = (bytes = 3_200) => new ByteBudget(bytes)
const response = (customerId: string, bytes: number) => new KeptResponse('resp_1', customerId, Buffer.alloc(bytes))

it('takes the memory of the budget, and gives it back once', () => {
  const budget = budgetOf()
  const kept = new KeptResponses(budget)
  const first = response('a', 60)
  kept.keep(first)
  expect([first.isListed, budget.usedBytes, kept.usedBytes]).toEqual([true, 60, 60])
  kept.forget(first)
  kept.forget(first)
  expect([first.isListed, budget.usedBytes, kept.usedBytes]).toEqual([false, 0, 0])
})

it('forgets the oldest of a customer for a new one', () => {
  const kept = new KeptResponses(budgetOf())
  const [first, second, other] = [response('a', 60), response('a', 40), response('b', 100)]
  for (const each of [first, other, second]) kept.keep(each)
  const third = response('a', 30)
  kept.keep(third)
  expect([first, second, third, other].map(each => each.isListed)).toEqual([false, true, true, true])
})

it('forgets the oldest of all where all are full', () => {
  const kept = new KeptResponses(budgetOf())
  const all = ['a', 'b', 'c', 'd', 'e'].map(customer => response(customer, 100))
  for (const each of all) kept.keep(each)
  expect(all.map(each => each.isListed)).toEqual([false, true, true, true, true])
  expect(kept.usedBytes).toBe(400)
})

it('keeps none that is larger than the share of a customer, and none that the budget cannot pay', () => {
  const budget = budgetOf()
  const kept = new KeptResponses(budget)
  const large = response('a', 101)
  kept.keep(large)
  budget.take(3_200)
  const unpaid = response('a', 1)
  kept.keep(unpaid)
  expect([large.isListed, unpaid.isListed, kept.usedBytes]).toEqual([false, false, 0])
})

// Went wrong: a lane held the memory of a conversation that was forgotten, which nobody counted.
it('holds no memory of what it has forgotten', () => {
  const kept = new KeptResponses(budgetOf())
  const all = Array.from({ length: 40 }, () => response('a', 60))
  for (const each of all) kept.keep(each)
  expect(all.reduce((sum, { items }) => sum + items.length, 0)).toBe(60)
})
