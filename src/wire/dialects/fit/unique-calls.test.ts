import { expect, it } from 'vitest'
import { UniqueCalls } from './unique-calls.ts'

it('makes one hash for each call with a repeated id', () => {
  let hashes = 0
  // The id is read once for each hash.
  const id = {
    toString() {
      hashes++
      return 'x'
    },
  }
  const calls = new UniqueCalls()
  const sent = Array.from({ length: 2_000 }, () => calls.call(id))
  expect(new Set(sent).size).toBe(2_000)
  expect(hashes).toBe(1_999)
  expect(sent.map(() => calls.result(id))).toEqual(sent)
  expect(calls.result(id)).toBe(undefined)
})

it('skips a replacement that is the id of another call', () => {
  const [, first, second] = replacements(3)
  const calls = new UniqueCalls()
  expect([first, 'x', 'x', 'x'].map(id => calls.call(id))).toEqual([first, 'x', second, replacements(4)[3]])
  expect(calls.unanswered().size).toBe(4)
})

function replacements(count: number): unknown[] {
  const calls = new UniqueCalls()
  return Array.from({ length: count }, () => calls.call('x'))
}
