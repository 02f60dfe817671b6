import { expect, test } from 'vitest'
import { seededRandom } from './seeded-random.ts'

const take = (count: number, next: () => number) => Array.from({ length: count }, next)

test('repeats for the same seed and differs for another', () => {
  expect(take(20, seededRandom(7))).toEqual(take(20, seededRandom(7)))
  expect(take(20, seededRandom(7))).not.toEqual(take(20, seededRandom(8)))
})

test('fills [0, 1) evenly', () => {
  const numbers = take(10_000, seededRandom(1))
  expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...numbers)).toBeLessThan(1)
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const share = numbers.filter(number => Math.floor(number * 10) === tenth).length
    expect(share).toBeGreaterThan(850)
    expect(share).toBeLessThan(1_150)
  }
})
