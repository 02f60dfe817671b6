import { expect, test } from 'vitest'
import { OpenCalls } from './open-calls.ts'

test('a result takes the call with its id, or else the oldest one of its function', () => {
  const open = new OpenCalls()
  for (const [id, name] of [
    ['a', 'look'],
    ['b', 'look'],
    ['c', 'search'],
    ['d', 'look'],
  ] as const)
    open.add(id, name)
  expect(open.take('b', 'look')).toBe('b')
  expect(open.take(null, 'look')).toBe('a')
  expect(open.take(null, 'look')).toBe('d')
  expect(open.take(null, 'look')).toBe(null)
  expect(open.take('b', 'look')).toBe(null)
  expect(open.take('c', 'look')).toBe('c')
  expect(open.take(null, 'search')).toBe(null)
})

test('calls with the same id are taken in their order', () => {
  const open = new OpenCalls()
  open.add('a', 'look')
  open.add('a', 'search')
  expect(open.take(null, 'look')).toBe('a')
  expect(open.take('a', 'search')).toBe('a')
  expect(open.take('a', 'search')).toBe(null)
})

// Searching a list for each result would take minutes here, and this test would time out.
test('many results without their calls are found to have none', () => {
  const open = new OpenCalls()
  for (let i = 0; i < 300_000; i++) open.add('a', 'look')
  let found = 0
  for (let i = 0; i < 300_000; i++) {
    if (open.take(null, 'search') !== null) found++
    if (open.take(`b${i}`, 'look') !== null) found++
    if (open.take(i % 2 === 0 ? 'a' : null, 'look') !== null) found++
  }
  expect(found).toBe(300_000)
})
