import { describe, expect, test } from 'vitest'
import { type MarketLoad, runMarketLoad } from '../../sim/market-load.ts'
import { type ServiceTier, serviceTiers } from '../../src/domain/chat-job.ts'
import { standardTimeouts } from '../../src/domain/endpoint-defaults.ts'
import { jobOf, offerOf } from '../supply/random-market.ts'

// Two nodes under load in virtual time, with three hosters of one model.

const hosters = ['a', 'b', 'c'].map((name, index) => {
  const offer = offerOf({
    name,
    kind: 'hoster',
    hosterId: name,
    trustScore: 1,
    price: { inputPicoPerToken: BigInt(100 + index), outputPicoPerToken: BigInt(100 + index) },
  })
  return { ...offer, endpoint: { ...offer.endpoint, timeouts: standardTimeouts } }
})
const jobsOf = (serviceTier: ServiceTier) =>
  [true, false].map(stream => jobOf({ stream, maxTokens: 256, constraints: { serviceTier } }))
const BROKEN_AT_MS = 30_000

const load = (serviceTier: ServiceTier, behaviour: MarketLoad['behaviour']): MarketLoad => ({
  seed: 7,
  offers: hosters,
  jobs: jobsOf(serviceTier),
  nodes: 2,
  requestsPerS: 60,
  seconds: 150,
  behaviour,
})

describe.each(serviceTiers)('%s', tier => {
  test('one of three hosters that swallows requests: users see no failures, and traffic leaves it within 10 s', async () => {
    const { requests, failed, attempts } = await runMarketLoad(
      load(tier, (endpointId, atMs) => (endpointId === 'a' && atMs >= BROKEN_AT_MS ? 'hangs' : 'answers')),
    )
    expect(requests).toBe(9_000)
    expect(failed / requests).toBeLessThan(0.001)
    const toBroken = attempts.filter(({ endpointId }) => endpointId === 'a')
    expect(toBroken.filter(({ atMs }) => atMs < BROKEN_AT_MS).length).toBeGreaterThan(200)
    for (const node of [0, 1]) {
      const later = toBroken.filter(attempt => attempt.node === node && attempt.atMs > BROKEN_AT_MS + 10_000)
      // The trials after each ejection are real requests, one at a time.
      expect(later.length).toBeLessThan(20)
    }
  })

  test('three hosters that fail half of their requests get at most 1.2 times the load', async () => {
    const { requests, attempts } = await runMarketLoad(
      load(tier, (_endpointId, _atMs, random) => (random() < 0.5 ? 'fails' : 'answers')),
    )
    expect(attempts.length / requests).toBeLessThanOrEqual(1.2)
    // Most of the failures that the budget allows to retry are retried.
    expect(attempts.length / requests).toBeGreaterThan(1.1)
  })
})
