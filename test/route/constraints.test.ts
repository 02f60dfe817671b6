import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ApiError } from '../../src/base/domain/errors.ts'
import type { Ticket } from '../../src/base/domain/handoff.ts'
import { costNanos } from '../../src/base/domain/money.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { outputCap } from '../../src/base/domain/request-bounds.ts'
import { buildCatalog } from '../../src/market/supply/catalog/catalog.ts'
import { holdFor, maxTokensFor } from '../../src/request/admit/admit.ts'
import { candidatesFor, eligible } from '../../src/request/admit/eligible.ts'
import { expectedCostPicos, expectedUse, route } from '../../src/request/route/route.ts'
import { type RandomMarket, randomMarket, seededRandom } from '../supply/random-market.ts'

/** Turns a job into a plan with the steps of admission and routing. Undefined when the market lacks the model. */
function choose({ offers, job, health, cloudCompetes, stickyOfferId, seed }: RandomMarket) {
  const catalog = buildCatalog(offers, () => 0)
  let candidates: ReturnType<typeof candidatesFor>
  try {
    candidates = candidatesFor(catalog, job)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'model_not_found') return undefined
    throw error
  }
  const { eligible: allowed, excluded } = eligible(candidates.offers, job, health)
  if (allowed.length === 0) return { candidates, allowed, excluded, plan: [], ranks: [], hold: undefined }
  const hold = holdFor(allowed, job, 4_096)
  const ticket: Ticket = {
    requestId: '',
    hold: { leaseId: '', nanos: hold.wantNanos, isOpen: true },
    caller: {} as Ticket['caller'],
    startedAtEpochMs: 0,
    startedMonotonicMs: 0,
    label: null,
    models: candidates.models,
    eligible: allowed,
    excluded,
    maxTokens: hold.maxTokens,
    clamp: null,
  }
  const { offers: plan, ranks } = route(ticket, job, { health, cloudCompetes, stickyOfferId }, seededRandom(seed))
  return { candidates, allowed, excluded, plan, ranks, hold }
}

const isCloud = (offer: Offer) => offer.endpoint.kind === 'cloud'
const isHoster = (offer: Offer) => offer.endpoint.kind === 'hoster'

function check(runs: number, property: (market: RandomMarket, chosen: NonNullable<ReturnType<typeof choose>>) => void) {
  fc.assert(
    fc.property(randomMarket, market => {
      const chosen = choose(market)
      if (chosen) property(market, chosen)
    }),
    { numRuns: runs, seed: 2_026 },
  )
}

describe('in 10,000 random markets', () => {
  test('constraints hold for every eligible offer and every offer that a retry could reach', () => {
    let privateRequests = 0
    check(10_000, ({ job: { constraints } }, { allowed, plan }) => {
      // A retry takes the next offer of the plan, so other offers cannot be tried.
      for (const offers of [allowed, plan]) {
        if (constraints.privacyMode && offers.some(isCloud)) throw new Error('cloud despite privacy_mode')
        const hosters = offers.filter(isHoster).map(offer => offer.endpoint)
        if (constraints.trustedOnly && hosters.some(({ trustScore }) => !(trustScore! > 0.8)))
          throw new Error('untrusted')
        if (hosters.some(({ hosterId }) => constraints.denyHosters.has(hosterId!))) throw new Error('denied')
        if (constraints.allowHosters && hosters.some(({ hosterId }) => !constraints.allowHosters!.has(hosterId!))) {
          throw new Error('not allowed')
        }
      }
      if (constraints.privacyMode && plan.length > 0) privateRequests++
    })
    expect(privateRequests).toBeGreaterThan(1_000)
  })
})

test('every candidate is either eligible or excluded for one reason, and the plan is the eligible offers in some order', () => {
  check(2_000, (_, { candidates, allowed, excluded, plan }) => {
    const all = candidates.offers.map(offer => offer.offerId)
    expect([...allowed.map(offer => offer.offerId), ...excluded.map(({ offerId }) => offerId)].sort()).toEqual(
      all.toSorted(),
    )
    expect(new Set(all).size).toBe(all.length)
    expect(plan.map(offer => offer.offerId).sort()).toEqual(allowed.map(offer => offer.offerId).sort())
  })
})

test('the hold covers the worst case of every candidate', () => {
  check(2_000, ({ job }, { allowed, hold }) => {
    if (!hold) return
    for (const offer of allowed) {
      const asked = outputCap(offer, job, hold.maxTokens)
      expect(asked).toBeLessThanOrEqual(hold.maxTokens)
      const worst = costNanos(offer.price, job.inputTokensBound, asked * job.choices)
      expect(worst <= hold.wantNanos).toBe(true)
    }
    expect(hold.floorNanos <= hold.wantNanos).toBe(true)
    if (job.maxTokens === null) return
    const most = Math.max(...allowed.map(offer => outputCap(offer, job, job.maxTokens!)))
    expect(hold).toMatchObject({ maxTokens: most, floorNanos: hold.wantNanos })
  })
})

test('the tokens that a smaller hold affords never cost more than that hold at any candidate', () => {
  check(2_000, ({ job, seed }, { allowed, hold }) => {
    if (!hold) return
    const held = hold.floorNanos + ((hold.wantNanos - hold.floorNanos) * BigInt(seed % 101)) / 100n
    const maxTokens = Math.min(maxTokensFor(allowed, job, held), hold.maxTokens)
    if (maxTokens === 0) return
    for (const offer of allowed) {
      const tokens = outputCap(offer, job, maxTokens) * job.choices
      expect(costNanos(offer.price, job.inputTokensBound, tokens) <= held).toBe(true)
    }
  })
})

test('each tier keeps its promise about prices, with short outputs and last resorts at the end', () => {
  check(2_000, ({ job, health, cloudCompetes }, { candidates, plan, ranks, hold }) => {
    const shortOnes = new Set(ranks.filter(({ isShort }) => isShort).map(({ offer }) => offer))
    const isFailing = (offer: Offer) => health.state(offer.offerId) === 'ejected'
    const firstFailing = plan.findIndex(isFailing)
    if (firstFailing >= 0) expect(plan.slice(firstFailing).every(isFailing)).toBe(true)
    const healthy = plan.filter(offer => !isFailing(offer))
    const modelRank = ({ modelId }: Offer) => {
      const at = candidates.models.indexOf(modelId)
      return at >= 0 ? at : candidates.models.indexOf('auto')
    }
    for (const [before, after] of pairs(healthy)) {
      expect(modelRank(before)).toBeLessThanOrEqual(modelRank(after))
      if (modelRank(before) < modelRank(after)) continue
      expect(shortOnes.has(before) && !shortOnes.has(after)).toBe(false)
      if (shortOnes.has(before) !== shortOnes.has(after)) continue
      const use = expectedUse(job, hold!.maxTokens)
      const cost = (offer: Offer) => expectedCostPicos(offer.price, use)
      const limit = { cheapest: 100n, balanced: 150n, fastest: 300n }[job.constraints.serviceTier]
      expect(cost(before) * 100n <= cost(after) * limit).toBe(true)
      if (!cloudCompetes && cost(before) === cost(after) && job.constraints.serviceTier === 'cheapest') {
        expect(isCloud(before) && !isCloud(after)).toBe(false)
      }
    }
  })
})

test('health never empties a model that the constraints allow, and drops at most half of its hosters', () => {
  check(2_000, (_, { candidates, allowed, excluded }) => {
    const ejected = new Set(
      excluded.filter(({ reason }) => reason === 'endpoint_ejected').map(({ offerId }) => offerId),
    )
    const dropped = candidates.offers.filter(offer => ejected.has(offer.offerId))
    for (const [modelId, gone] of Map.groupBy(dropped, offer => offer.modelId)) {
      const left = allowed.filter(offer => offer.modelId === modelId)
      expect(left.length).toBeGreaterThan(0)
      expect(gone.filter(isHoster).length).toBeLessThanOrEqual(gone.concat(left).filter(isHoster).length / 2)
    }
  })
})

test('the same ticket, health and random numbers give the same plan', () => {
  check(500, (market, { plan }) => {
    expect(choose(market)!.plan).toEqual(plan)
  })
})

function pairs<T>(items: readonly T[]): [T, T][] {
  return items.slice(1).map((after, at) => [items[at]!, after])
}
