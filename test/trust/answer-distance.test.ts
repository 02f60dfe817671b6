import { expect, test } from 'vitest'
import { distributionDistance, divergenceRate } from '../../src/market/trust/answer-distance.ts'

test.each<[string, readonly string[], readonly string[], number | null]>([
  ['the same answers', ['a b c', 'd e'], ['a b c', 'd e'], 0],
  ['one of four words', ['a b c d'], ['a b c x'], 1 / 4],
  ['words after the first difference do not count', ['a b c d e f'], ['a x c d e f'], 1 / 2],
  ['an answer that ends earlier is no difference', ['a b c d'], ['a b'], 0],
  ['over several prompts', ['a b c', 'd e f'], ['a b x', 'd e f'], 1 / 6],
  ['no words', [''], ['a'], null],
])('divergence rate: %s', (_name, a, b, expected) => {
  expect(divergenceRate(a, b)?.overall ?? null).toBe(expected)
})

test('the worst prompt shows a server that sometimes answers with another model', () => {
  const [same, other] = ['a b c d e f g h i j', 'a x c d e f g h i j']
  expect(divergenceRate([same, same, same], [same, other, same])).toEqual({ overall: 1 / 22, worst: 1 / 2 })
})

const position = (...probabilities: number[]) => ({
  tokens: probabilities.map((probability, at) => ({ token: 'abcd'[at]!, logprob: Math.log(probability) })),
})

test('distributions are compared up to the first position with another likeliest token', () => {
  const same = position(0.7, 0.3)
  const overall = (...of: Parameters<typeof distributionDistance>) => distributionDistance(...of)?.overall
  expect(overall([[same, same]], [[same, same]])).toBe(0)
  expect(overall([[same]], [[position(0.6, 0.4)]])).toBeCloseTo(0.1)
  // The second position has another prefix and does not count.
  expect(overall([[same, same]], [[position(0.3, 0.7), position(1)]])).toBeCloseTo(0.4)
  expect(distributionDistance([[same], [same]], [[same], [position(0.5, 0.5)]])).toEqual({
    overall: expect.closeTo(0.1),
    worst: expect.closeTo(0.2),
  })
  expect(distributionDistance([[]], [[]])).toBeNull()
})
