import { expect, test } from 'vitest'
import type { ExclusionReason } from '../../src/base/domain/handoff.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { eligible } from '../../src/request/admit/eligible.ts'
import { explainExclusions } from '../../src/request/admit/explain-exclusions.ts'
import { healthOf, jobOf, offerOf } from '../supply/random-market.ts'

const hosterId = '00000000-0000-4000-8000-00000000000a'
const local = offerOf({ kind: 'local', features: new Set() })
const cloud = offerOf({ kind: 'cloud' })
const hoster = offerOf({ kind: 'hoster', hosterId, trustScore: 0.9 })
const all = [local, hoster, cloud]

type Job = Parameters<typeof jobOf>[0]
/**
 * Returns the reason for each excluded offer. Checks that all others are eligible, in the order of the
 * candidates.
 */
const excludedBy = (job: Job, offers = all, health = healthOf()) => {
  const { eligible: left, excluded } = eligible(offers, jobOf(job), health)
  const reasons = Object.fromEntries(excluded.map(({ offerId, reason }) => [offerId, reason]))
  expect(left).toEqual(offers.filter(({ offerId }) => !(offerId in reasons)))
  return reasons
}

test('without constraints every offer is eligible', () => {
  expect(eligible(all, jobOf(), healthOf())).toEqual({ eligible: all, excluded: [] })
})

test.each<[string, Job, Record<string, ExclusionReason>]>([
  ['privacy_mode excludes cloud offers', { constraints: { privacyMode: true } }, { 'cloud/m': 'privacy_mode' }],
  [
    'deny_hosters excludes its hosters',
    { constraints: { denyHosters: new Set([hosterId]) } },
    { 'hoster/m': 'deny_hosters' },
  ],
  ['allow_hosters keeps those hosters', { constraints: { allowHosters: new Set([hosterId]) } }, {}],
  [
    'an empty allow_hosters allows no hoster, local and cloud stay',
    { constraints: { allowHosters: new Set() } },
    { 'hoster/m': 'allow_hosters' },
  ],
  [
    'a hoster on both lists is excluded',
    { constraints: { allowHosters: new Set([hosterId]), denyHosters: new Set([hosterId]) } },
    { 'hoster/m': 'deny_hosters' },
  ],
  [
    'max_latency_ms excludes unmeasured hosters',
    { constraints: { maxLatencyMs: 500 } },
    { 'hoster/m': 'max_latency_ms' },
  ],
  ['max_tokens above the largest output excludes no offer', { maxTokens: 8_193 }, {}],
  ['max_tokens above the context excludes no offer', { maxTokens: 100_000 }, {}],
  [
    'a feature that only a local server with unknown features may have',
    { features: new Set(['audio']) },
    { 'hoster/m': 'feature_missing', 'cloud/m': 'feature_missing' },
  ],
])('%s', (_, job, excluded) => {
  expect(excludedBy(job)).toEqual(excluded)
})

test.each([
  [0.79, false],
  [0.8, false],
  [0.800001, true],
  [1, true],
])('trusted_only with a trust score of %d: %s', (trustScore, may) => {
  const offer = offerOf({ kind: 'hoster', hosterId, trustScore })
  expect(excludedBy({ constraints: { trustedOnly: true } }, [offer, local, cloud])).toEqual(
    may ? {} : { 'hoster/m': 'trusted_only' },
  )
})

test.each([
  [499, true],
  [500, true],
  [501, false],
])('max_latency_ms of 500 and a predicted %i ms: %s', (predictedMs, may) => {
  const health = healthOf({ 'hoster/m': { predictedMs } })
  expect(excludedBy({ constraints: { maxLatencyMs: 500 } }, all, health)).toEqual(
    may ? {} : { 'hoster/m': 'max_latency_ms' },
  )
})

test('a prompt is refused only when it cannot fit even at 8 bytes a token without counting images', () => {
  const small = offerOf({ contextTokens: 1_000 })
  const verdict = (job: Job) => excludedBy(job, [small])['local/m'] ?? 'fits'
  expect(verdict({ inputTokensBound: 7_999 })).toBe('fits')
  expect(verdict({ inputTokensBound: 8_000 })).toBe('context_too_small')
  expect(verdict({ inputTokensBound: 9_000, mediaTokensBound: 5_000 })).toBe('fits')
  expect(verdict({ inputTokensBound: 7_999, maxTokens: 500 })).toBe('fits')
})

const four = ['a', 'b', 'c', 'd'].map(name => offerOf({ kind: 'hoster', name, hosterId: name, trustScore: 1 }))
const ejected = (...names: string[]) =>
  healthOf(Object.fromEntries(names.map((name, at) => [`${name}/m`, { state: 'ejected', ejectedForMs: at + 1 }])))

test('an ejected hoster is excluded', () => {
  expect(excludedBy({}, four, ejected('b'))).toEqual({ 'b/m': 'endpoint_ejected' })
})

test('at most half of the hosters are excluded, those with the longest ejection first', () => {
  expect(excludedBy({}, four, ejected('a', 'b', 'c', 'd'))).toEqual({
    'c/m': 'endpoint_ejected',
    'd/m': 'endpoint_ejected',
  })
})

test('half of the hosters means half of those of the model, without local servers and clouds', () => {
  const offer = (name: string, more: Parameters<typeof offerOf>[0] = {}) =>
    offerOf({ kind: 'hoster', name, hosterId: name, trustScore: 1, ...more })
  const [a, b, c, d] = four as [Offer, Offer, Offer, Offer]
  const others = ['x', 'y'].map(name => offer(name, { modelId: 'n' }))
  expect(excludedBy({}, [a, b, ...others], ejected('a', 'b'))).toEqual({ 'b/m': 'endpoint_ejected' })
  expect(excludedBy({}, [a, b, local, cloud], ejected('a', 'b'))).toEqual({ 'b/m': 'endpoint_ejected' })
  expect(excludedBy({}, [c, d, local, cloud], ejected('c', 'local'))).toEqual({
    'c/m': 'endpoint_ejected',
    'local/m': 'endpoint_ejected',
  })
})

test('when all servers are ejected, the one with the shortest ejection stays', () => {
  const locals = ['a', 'b', 'c'].map(name => offerOf({ kind: 'local', name }))
  expect(excludedBy({}, locals, ejected('a', 'b', 'c'))).toEqual({
    'b/m': 'endpoint_ejected',
    'c/m': 'endpoint_ejected',
  })
})

test('only a local server without declared features is tried anyway', () => {
  const silent = { features: new Set<never>() }
  const offers = [local, offerOf({ kind: 'hoster', hosterId, ...silent }), offerOf({ kind: 'cloud', ...silent })]
  expect(excludedBy({ features: new Set(['tools']) }, offers)).toEqual({
    'hoster/m': 'feature_missing',
    'cloud/m': 'feature_missing',
  })
})

test('max_cost_usd may equal the cost of the prompt and one token of each choice', () => {
  const offer = offerOf({ price: { inputPicoPerToken: 1_000n, outputPicoPerToken: 2_000n } })
  const job = { inputTokensBound: 100, choices: 2 }
  expect(excludedBy({ ...job, maxCostNanos: 104n }, [offer])).toEqual({})
  expect(excludedBy({ ...job, maxCostNanos: 103n }, [offer])).toEqual({ 'local/m': 'max_cost_usd' })
})

test('the only server that the constraints allow stays even if it is ejected', () => {
  expect(excludedBy({ constraints: { privacyMode: true } }, [local, cloud], ejected('local'))).toEqual({
    'cloud/m': 'privacy_mode',
  })
  expect(excludedBy({}, [local, cloud], ejected('local'))).toEqual({ 'local/m': 'endpoint_ejected' })
})

test('the refusal says how many offers each constraint excluded', () => {
  const job = jobOf({
    features: new Set(['audio']),
    constraints: { privacyMode: true, trustedOnly: true, denyHosters: new Set(['a']) },
  })
  const offers = [
    ...four.map((offer, at) => ({
      ...offer,
      features: new Set(['audio'] as const),
      endpoint: { ...offer.endpoint, trustScore: at / 3 },
    })),
    { ...cloud, features: new Set(['audio'] as const) },
  ]
  const { eligible: left, excluded } = eligible(offers.slice(0, 3).concat(offers[4]!), job, healthOf())
  expect(left).toEqual([])
  expect(explainExclusions(excluded, offers, job)).toMatchObject({
    code: 'no_eligible_offer',
    param: null,
    message:
      'No server may serve this request: privacy_mode excluded 1 cloud offer; trusted_only (trust_score above 0.8) excluded 3 hoster offers. You were not charged. Relax one of these constraints and send the request again.',
  })
  expect(explainExclusions([], [], job)).toMatchObject({
    code: 'no_eligible_offer',
    message: expect.stringContaining('No server offers this model right now'),
  })
})

test.each([null, 5])('a prompt that is too long for every server is refused, with max_tokens %j', maxTokens => {
  const job = jobOf({ maxTokens, inputTokensBound: 1_000_000 })
  const { excluded } = eligible(all, job, healthOf())
  expect(explainExclusions(excluded, all, job)).toMatchObject({
    code: 'context_length_exceeded',
    param: 'messages',
    message:
      'The request exceeds the context window: the length of the prompt excluded 3 offers. You were not charged. Shorten the messages.',
  })
})

test('a prompt that is too long for some servers and forbidden at the others names both', () => {
  const job = jobOf({ inputTokensBound: 300_000, constraints: { privacyMode: true } })
  const large = offerOf({ kind: 'cloud', contextTokens: 1_000_000 })
  const { excluded } = eligible([local, large], job, healthOf())
  expect(explainExclusions(excluded, [local, large], job)).toMatchObject({
    code: 'no_eligible_offer',
    message: expect.stringContaining('the length of the prompt excluded 1 offer; privacy_mode excluded 1 cloud offer'),
  })
})

test('a feature that no server has is named, and no constraint is blamed', () => {
  const job = jobOf({ features: new Set(['audio', 'tools']), constraints: { privacyMode: true } })
  const offers = [local, cloud].map(offer => ({ ...offer, features: new Set(['tools'] as const) }))
  const { excluded } = eligible(offers, job, healthOf())
  expect(explainExclusions(excluded, offers, job)).toMatchObject({
    code: 'feature_not_supported',
    message: expect.stringMatching(/excluded 2 offers; none has audio\. You were not charged/),
  })
})

test('a feature that only a forbidden server has is a matter of the constraint', () => {
  const job = jobOf({ features: new Set(['audio']), constraints: { privacyMode: true } })
  const offers = [
    { ...local, features: new Set(['tools'] as const) },
    { ...cloud, features: new Set(['audio'] as const) },
  ]
  const { excluded } = eligible(offers, job, healthOf())
  expect(explainExclusions(excluded, offers, job)).toMatchObject({ code: 'no_eligible_offer' })
})

test('the refusal by max_latency_ms says how many answers a prediction needs', () => {
  const job = jobOf({ constraints: { maxLatencyMs: 100 } })
  const { excluded } = eligible(four, job, healthOf())
  expect(excluded.length).toBe(4)
  expect(explainExclusions(excluded, four, job).message).toContain('fewer than 5 answers in the last 10 minutes')
})

test.each([
  ['embeddings', 'converse'],
  ['rerank', 'converse'],
  ['completions', 'responses'],
  ['completions', 'messages'],
] as const)('a server of %s is eligible for it, also if it speaks %s for chat', (task, dialect) => {
  const speaker = offerOf({ kind: 'cloud', name: 'speaker', features: new Set([task]), speaks: [dialect] })
  const other = offerOf({ kind: 'cloud', name: 'other', features: new Set([task]) })
  const job = { task, forward: { stop: ['.'] }, hasStop: true, choices: task === 'completions' ? 2 : 1 } as const
  expect(excludedBy(job, [speaker, other])).toEqual({})
})
