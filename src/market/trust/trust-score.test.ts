import { expect, test } from 'vitest'
import { type DecayedCounts, HALF_LIFE_MS, lowerBound } from './decayed-counts.ts'
import { wilsonLowerBound } from './statistics.ts'
import { type TrustFacts, trustScore, waysToRaise } from './trust-score.ts'

const DAY_MS = 86_400_000

const counts = (good: number, bad = 0): DecayedCounts => ({ good, bad, squares: good + bad, atMs: 0 })

const trusted: TrustFacts = {
  reliability: counts(990, 3),
  honesty: counts(200, 0),
  conformance: counts(990, 0),
  requests: 993,
  audits: 200,
  ageMs: 30 * DAY_MS,
  standing: 'verified',
  isQuarantined: false,
}

test.each([
  [49, 50, 0.895],
  [99, 100, 0.946],
  [190, 200, 0.91],
  [180, 200, 0.851],
  [20, 20, 0.839],
])('the bound of %i of %i is %f', (good, of, bound) => {
  expect(wilsonLowerBound(good / of, of)).toBeCloseTo(bound, 3)
})

test('nothing known is no trust', () => {
  expect(wilsonLowerBound(1, 0)).toBe(0)
  expect(trustScore({ ...trusted, reliability: counts(0) }).score).toBe(0)
})

test('many honest requests and audits exceed 0.8', () => {
  expect(trustScore(trusted).score).toBeGreaterThan(0.8)
})

test.each<[string, Partial<TrustFacts>]>([
  ['199 requests', { requests: 199 }],
  ['69 audits', { audits: 69 }],
  ['six days', { ageMs: 7 * DAY_MS - 1 }],
  ['an honesty bound below 0.9', { honesty: counts(100, 6) }],
])('a closed gate keeps the score at 0.8, which trusted_only refuses: %s', (_name, facts) => {
  const { score, gates } = trustScore({ ...trusted, ...facts })
  expect(score).toBeLessThanOrEqual(0.8)
  expect(gates.filter(({ isPassed }) => !isPassed)).toHaveLength(1)
})

test('0.95, 0.60 and 0.98 would exceed 0.8, but 0.60 of the audits is no honesty', () => {
  const facts = {
    ...trusted,
    reliability: counts(9_700, 150),
    honesty: counts(2_000, 620),
    standing: 'contract',
  } as const
  const { product, score } = trustScore(facts)
  expect(product).toBeGreaterThan(0.8)
  expect(score).toBeLessThanOrEqual(0.8)
})

test.each([
  ['unverified', 0.7],
  ['verified', 0.9],
  ['contract', 1],
] as const)('%s: at most %f', (standing, cap) => {
  const many = { reliability: counts(1e6), honesty: counts(1e6), conformance: counts(1e6) }
  expect(trustScore({ ...trusted, ...many, standing }).score).toBeCloseTo(cap, 3)
})

test('a proven cheat has 0', () => {
  expect(trustScore({ ...trusted, isQuarantined: true }).score).toBe(0)
})

test('a name built on cheap calls does not cover expensive ones', () => {
  // 10,000 calls of weight 0.001 tell less than one of weight 10.
  const mixed = { good: 10_000 * 0.001 + 10, bad: 0, squares: 10_000 * 0.001 ** 2 + 10 ** 2, atMs: 0 }
  expect(lowerBound(mixed)).toBeLessThan(0.55)
  expect(lowerBound(counts(10_001))).toBeGreaterThan(0.99)
})

test('a bad result weighs as much as two good ones, and half after a week', () => {
  expect(lowerBound(counts(98, 2))).toBeLessThan(wilsonLowerBound(0.98, 100))
  const week = { ...trusted, reliability: { ...counts(99, 1), atMs: 0 } }
  expect(trustScore(week).components[0]!.rate).toBeCloseTo(99 / 101)
  expect(HALF_LIFE_MS).toBe(7 * DAY_MS)
})

test('the page says what would raise the score', () => {
  const few = trustScore({ ...trusted, requests: 150, standing: 'unverified' })
  expect(waysToRaise(few).map(({ text }) => text)).toEqual([
    '50 more requests of customers.',
    'Verify a domain and a payout account: the cap rises from 0.7 to 0.9.',
  ])
  const newcomer = { ...trusted, standing: 'unverified', reliability: counts(0), honesty: counts(0) } as const
  expect(waysToRaise(trustScore(newcomer)).map(({ text }) => text)).toContain(
    'Verify a domain and a payout account: the cap rises from 0.7 to 0.9.',
  )
})
