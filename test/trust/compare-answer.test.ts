import { expect, test } from 'vitest'
import { createRandom } from '../../sim/random.ts'
import { auditComparisons, type BatchedComparison, compareAnswer } from '../../src/market/trust/compare-answer.ts'

const position = (...tokens: [token: string, logprob: number][]) => ({
  tokens: tokens.map(([token, logprob]) => ({ token, logprob })),
})
const reference = {
  text: 'The Elbe.',
  topTokens: [
    position(['The', -0.1], ['A', -2.5]),
    position([' Elbe', -0.5], [' El', -1], [' Rhine', -4]),
    position(['.', -0.01], ['!', -5]),
  ],
}

test.each([
  ['the same text', 'The Elbe.', 0],
  ['an answer that ends earlier', 'The', 0],
  ['the second token at the start', 'A river', 2.4],
  ['a token in the middle', 'The Rhine.', 3.5],
  ['the longest listed token that fits', 'The Elder.', 0.5],
  ['a token that is not listed', 'It is', 3.4],
])('the gap in nats of %s', (_, own, value) => {
  const compared = compareAnswer(own, [reference], 0)!
  expect(compared.kind).toBe('gap')
  expect(compared.value).toBeCloseTo(value)
})

test('without log probabilities, the word counts at which the answers part', () => {
  const plain = { text: 'one two three four', topTokens: [] }
  expect(compareAnswer('one two four', [plain], 0)).toEqual({ kind: 'words', value: 1 / 3 })
  expect(compareAnswer('one two', [plain], 0)).toEqual({ kind: 'words', value: 0 })
})

test('at other temperatures, tokens that the reference finds unlikely raise the odds of another model', () => {
  const oddsOf = (own: string, temperature?: number) => compareAnswer(own, [reference], temperature)!
  expect(oddsOf('The Elbe.').kind).toBe('odds')
  expect(oddsOf('The Elbe.').value).toBeLessThan(0)
  expect(oddsOf('It is').value).toBeGreaterThan(1)
  expect(oddsOf('The Rhine').value).toBeGreaterThan(oddsOf('The El').value)
  // What is unlikely at a low temperature is less so at a high one.
  expect(oddsOf('It is', 1.5).value).toBeLessThan(oddsOf('It is', 0.5).value)
})

test('the odds of tokens that the reference draws itself have a mean below 1', () => {
  const { tokens } = reference.topTokens[1]!
  const rest = 1 - tokens.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)
  const drawn = [
    ...tokens.map(({ token, logprob }) => [`The${token}`, Math.exp(logprob)] as const),
    ['The other', rest] as const,
  ]
  const first = compareAnswer('The', [reference], 1)!.value
  const mean = drawn.reduce((sum, [own, p]) => {
    // Without the first token and the one after the parting.
    const two = { text: own, topTokens: reference.topTokens.slice(0, 2) }
    return sum + p * Math.exp(compareAnswer(own, [two], 1)!.value - first)
  }, 0)
  expect(mean).toBeLessThanOrEqual(1)
})

test('without log probabilities at other temperatures, the answer that is less like the first of the reference loses', () => {
  const known = [
    { text: 'the cat sat on the mat', topTokens: [] },
    { text: 'the cat sat on a mat', topTokens: [] },
  ]
  expect(compareAnswer('a dog runs', known, 1)).toEqual({ kind: 'pair', value: 1 })
  expect(compareAnswer('the cat sat on the mat', known, undefined)).toEqual({ kind: 'pair', value: 0 })
  expect(compareAnswer('the cat sat on a mat', known, 1)).toBeNull()
})

test('at a low temperature, an answer with listed tokens is no evidence because many others are not listed', () => {
  // Ten equally likely tokens, of which the server lists five.
  const flat = position(...['a', 'b', 'c', 'd', 'e'].map((token): [string, number] => [token, Math.log(0.1)]))
  const answer = { text: 'abc', topTokens: [flat, flat, flat] }
  for (const temperature of [0.2, 0.5, 0.9]) {
    expect(compareAnswer('bcd', [answer], temperature)!.value).toBeLessThanOrEqual(0)
    expect(compareAnswer('xyz', [answer], temperature)!.value).toBeLessThan(0.5)
  }
})

const random = createRandom(1)
const valuesOf = (count: number, swaps: number) =>
  Array.from({ length: count }, () =>
    random.chance(swaps) ? 0.5 + 4 * random.next() : random.chance(0.2) ? 0.3 * random.next() : 0,
  )
const gaps = (values: readonly number[], customerId: string | null = null): BatchedComparison[] =>
  values.map(value => ({ kind: 'gap', value, customerId }))
const others = new Map(['a', 'b', 'c'].map(id => [id, valuesOf(300, 0)]))
const earlier = { gap: others, words: new Map() }

test('an audit passes honest answers and fails those of another model', () => {
  expect(auditComparisons(gaps(valuesOf(16, 0)), earlier).hasPassed).toBe(true)
  const { hasPassed, eValues } = auditComparisons(gaps(valuesOf(16, 1)), earlier)
  expect(hasPassed).toBe(false)
  expect(Math.max(...eValues)).toBeGreaterThan(1e6)
})

test.each([
  ['one customer', ['a'], true],
  ['two customers, which may have agreed,', ['a', 'b'], null],
  ['three customers', ['a', 'b', 'c'], false],
  ['prompts of the gateway', [null], false],
])('an audit of which only %s differ', (_, from, hasPassed) => {
  const different = from.flatMap(customerId => gaps(valuesOf(8, 1), customerId))
  const honest = gaps(Array<number>(32 - different.length).fill(0), from[0] === null ? 'other' : null)
  expect(auditComparisons([...different, ...honest], earlier).hasPassed).toBe(hasPassed)
})

test('a cheat among the others does not hide another one', () => {
  const withCheat = { ...earlier, gap: new Map([...others, ['cheat', valuesOf(300, 1)]]) }
  expect(auditComparisons(gaps(valuesOf(16, 1)), withCheat).hasPassed).toBe(false)
})

test('an audit is not judged while too few values of others are known', () => {
  const { hasPassed, eValues } = auditComparisons(gaps(valuesOf(16, 1)), { gap: new Map(), words: new Map() })
  expect(hasPassed).toBeNull()
  expect(new Set(eValues)).toEqual(new Set([1]))
})

test('of answers at random, an honest hoster may lose six of ten pairs', () => {
  const pairs = (losses: number): BatchedComparison[] =>
    Array.from({ length: 16 }, (_, at) => ({ kind: 'pair', value: at < losses ? 1 : 0, customerId: null }))
  const honest = auditComparisons(pairs(9), earlier)
  expect(honest.hasPassed).toBe(true)
  expect(Math.max(...honest.eValues)).toBeLessThanOrEqual(1)
  const lost = auditComparisons(pairs(16), earlier)
  expect(lost.hasPassed).toBe(false)
  expect(Math.max(...lost.eValues)).toBeGreaterThan(100)
})
