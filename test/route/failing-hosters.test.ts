import { describe, expect, test } from 'vitest'
import { type MarketLoad, runMarketLoad } from '../../sim/market-load.ts'
import { type ServiceTier, serviceTiers } from '../../src/base/domain/chat-job.ts'
import { standardTimeouts } from '../../src/base/domain/endpoint-defaults.ts'
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

const load = (
  serviceTier: ServiceTier,
  behaviour: MarketLoad['behaviour'],
  more: Partial<MarketLoad> = {},
): MarketLoad => ({
  seed: 7,
  offers: hosters,
  jobs: jobsOf(serviceTier),
  nodes: 2,
  requestsPerS: 60,
  seconds: 150,
  behaviour,
  ...more,
})

describe.each(serviceTiers)('%s', tier => {
  // The requests that wait at the silent hoster fail together. That must not depend on how many others there are, before
  // or after: the retries of a short load have hardly any others to be a fifth of.
  test.each([40, 90, 150])(
    'one of three hosters that swallows requests, with a load of %i s: users see no failures, and traffic leaves it within 10 s',
    async seconds => {
      const { requests, failed, attempts } = await runMarketLoad(
        load(tier, (endpointId, atMs) => (endpointId === 'a' && atMs >= BROKEN_AT_MS ? 'hangs' : 'answers'), {
          seconds,
        }),
      )
      expect(requests).toBe(60 * seconds)
      expect(failed / requests).toBeLessThan(0.001)
      const toBroken = attempts.filter(({ endpointId }) => endpointId === 'a')
      expect(toBroken.filter(({ atMs }) => atMs < BROKEN_AT_MS).length).toBeGreaterThan(200)
      for (const node of [0, 1]) {
        const later = toBroken.filter(attempt => attempt.node === node && attempt.atMs > BROKEN_AT_MS + 10_000)
        // The trials after each ejection are real requests, one at a time.
        expect(later.length).toBeLessThan(20)
      }
    },
  )

  test.each([5, 2_000])(
    'three hosters that fail half of their requests after %i ms get at most 1.2 times the load',
    async failsAfterMs => {
      const { requests, attempts } = await runMarketLoad(
        load(tier, (_endpointId, _atMs, random) => (random() < 0.5 ? 'fails' : 'answers'), { failsAfterMs }),
      )
      expect(attempts.length / requests).toBeLessThanOrEqual(1.2)
      // Most of the failures that the budget allows to retry are retried.
      expect(attempts.length / requests).toBeGreaterThan(1.1)
    },
  )
})
