import { describe, expect, test } from 'vitest'
import type { ServiceTier, SourceRequest } from '../../src/base/domain/chat-job.ts'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import type { Ticket } from '../../src/base/domain/handoff.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { type RouteView, route, routingNote } from '../../src/request/route/route.ts'
import { healthOf, jobOf, offerOf, seededRandom } from '../supply/random-market.ts'

const ticketOf = (eligible: readonly Offer[], models: readonly string[] = ['m']): Ticket => ({
  requestId: '',
  hold: { leaseId: '', nanos: 0n, isOpen: true },
  caller: {} as Ticket['caller'],
  startedAtEpochMs: 0,
  startedMonotonicMs: 0,
  label: null,
  models,
  eligible,
  excluded: [],
  maxTokens: 256,
  clamp: null,
})

const priced = (name: string, perMillion: number, more: Parameters<typeof offerOf>[0] = {}) =>
  offerOf({
    name,
    kind: 'hoster',
    hosterId: name,
    trustScore: 1,
    price: { inputPicoPerToken: BigInt(perMillion), outputPicoPerToken: BigInt(perMillion) },
    ...more,
  })

function namesOf(
  offers: readonly Offer[],
  tier: ServiceTier,
  view: Partial<RouteView> = {},
  random = () => 0.5,
  models?: string[],
) {
  const job = jobOf({ constraints: { serviceTier: tier } })
  const plan = route(ticketOf(offers, models), job, { health: healthOf(), ...view }, random)
  return plan.offers.map(offer => offer.endpoint.name)
}

/** Counts how often each name comes first in 2,000 plans. */
function firsts(offers: readonly Offer[], tier: ServiceTier, view: Partial<RouteView> = {}): Record<string, number> {
  const random = seededRandom(7)
  const counts: Record<string, number> = {}
  for (let n = 0; n < 2_000; n++) {
    const first = namesOf(offers, tier, view, random)[0]!
    counts[first] = (counts[first] ?? 0) + 1
  }
  return counts
}

test.each<ServiceTier>(['balanced', 'fastest'])(
  '%s: an offer with three times the weight is first three times as often',
  tier => {
    const counts = firsts([priced('usual', 1), priced('preferred', 1, { weight: 3 })], tier)
    expect(counts.preferred).toBeGreaterThan(1_400)
    expect(counts.usual).toBeGreaterThan(400)
    // A weight does not make up for a price.
    expect(firsts([priced('usual', 1), priced('dear', 5, { weight: 100 })], 'balanced')).toEqual({ usual: 2_000 })
  },
)

test('offers that know the tools of the client come first among those of comparable price', () => {
  const source = {
    dialect: 'messages',
    body: {},
    conversation: () => ({}),
    hasKnownTools: true,
  } as unknown as SourceRequest
  const speaking = (name: string, perMillion: number, speaks?: readonly Dialect[]) => ({
    ...offerOf({
      name,
      kind: 'cloud',
      price: { inputPicoPerToken: BigInt(perMillion), outputPicoPerToken: BigInt(perMillion) },
    }),
    ...(speaks && { speaks }),
  })
  const offers = [
    offerOf({ name: 'own', price: { inputPicoPerToken: 1n, outputPicoPerToken: 1n } }),
    speaking('chat', 1),
    speaking('native', 1, ['chat', 'messages']),
    speaking('expensive', 50, ['messages']),
  ]
  for (const serviceTier of ['cheapest', 'balanced', 'fastest'] as const) {
    const orderOf = (asked: SourceRequest | undefined) => {
      const job = jobOf({ constraints: { serviceTier }, ...(asked && { source: asked }) })
      return route(ticketOf(offers), job, { health: healthOf() }, () => 0.5).offers.map(({ endpoint }) => endpoint.name)
    }
    expect(orderOf(source)[0]).toBe('native')
    expect(orderOf(source).at(-1)).toBe('expensive')
    if (serviceTier !== 'cheapest') expect(orderOf({ ...source, hasKnownTools: undefined! })[0]).toBe('own')
  }
})

test('balanced: local servers count as fully trusted', () => {
  const own = offerOf({ name: 'own', price: { inputPicoPerToken: 1n, outputPicoPerToken: 1n } })
  const counts = firsts([priced('trusted', 1), own], 'balanced')
  expect(counts.own).toBeGreaterThan(900)
  expect(counts.trusted).toBeGreaterThan(900)
})

test('cheapest: by price, equal prices by predicted latency, unmeasured last', () => {
  const offers = [priced('c', 3), priced('b-unknown', 2), priced('b-slow', 2), priced('b-fast', 2), priced('a', 1)]
  const health = healthOf({
    'c/m': { predictedMs: 1 },
    'b-slow/m': { predictedMs: 900 },
    'b-fast/m': { predictedMs: 100 },
    'a/m': { predictedMs: 5_000 },
  })
  expect(namesOf(offers, 'cheapest', { health })).toEqual(['a', 'b-fast', 'b-slow', 'b-unknown', 'c'])
})

test('cheapest compares the cost of this request: input and output prices count by expected tokens', () => {
  const highOutput = offerOf({ name: 'high-output', price: { inputPicoPerToken: 1n, outputPicoPerToken: 10n } })
  const highInput = offerOf({ name: 'high-input', price: { inputPicoPerToken: 5n, outputPicoPerToken: 1n } })
  const order = (inputTokensBound: number) => {
    const job = jobOf({ inputTokensBound, constraints: { serviceTier: 'cheapest' } })
    return route(ticketOf([highOutput, highInput]), job, { health: healthOf() }, () => 0.5).offers[0]!.endpoint.name
  }
  expect(order(400)).toBe('high-input')
  expect(order(100_000)).toBe('high-output')
})

test('local and hosters compete; a cloud of comparable price comes after them unless it may compete', () => {
  const offers = [
    priced('cloud', 100, { kind: 'cloud' }),
    priced('hoster', 110),
    priced('local', 140, { kind: 'local' }),
  ]
  expect(namesOf(offers, 'balanced')[2]).toBe('cloud')
  expect(namesOf(offers, 'fastest')[2]).toBe('cloud')
  expect(firsts(offers, 'balanced', { cloudCompetes: true }).cloud).toBeGreaterThan(500)
  const equal = [priced('cloud', 1, { kind: 'cloud' }), priced('hoster', 1)]
  const health = healthOf({ 'cloud/m': { predictedMs: 1 }, 'hoster/m': { predictedMs: 2 } })
  expect(namesOf(equal, 'cheapest', { health })).toEqual(['hoster', 'cloud'])
  expect(namesOf(equal, 'cheapest', { health, cloudCompetes: true })).toEqual(['cloud', 'hoster'])
})

describe('the promise about prices', () => {
  const cloud = priced('cloud', 100, { kind: 'cloud' })
  const hoster = (perMillion: number) => priced('hoster', perMillion)

  test('cheapest never tries an offer before a cheaper one, whatever their kinds', () => {
    const offers = [priced('local', 300, { kind: 'local' }), hoster(4_000), cloud, priced('other', 200)]
    expect(namesOf(offers, 'cheapest')).toEqual(['cloud', 'other', 'local', 'hoster'])
  })

  test('balanced and fastest try no offer above their limit first', () => {
    expect(firsts([hoster(150), cloud], 'balanced')).toEqual({ hoster: 2_000 })
    expect(firsts([hoster(151), cloud], 'balanced')).toEqual({ cloud: 2_000 })
    expect(firsts([hoster(300), cloud], 'fastest')).toEqual({ hoster: 2_000 })
    expect(firsts([hoster(301), cloud], 'fastest')).toEqual({ cloud: 2_000 })
    const priceLimits = { balancedPercent: 4_000, fastestPercent: 100, localPercent: 100 }
    expect(firsts([hoster(4_000), cloud], 'balanced', { priceLimits })).toEqual({ hoster: 2_000 })
    expect(firsts([hoster(101), cloud], 'fastest', { priceLimits })).toEqual({ cloud: 2_000 })
  })

  test('after failures each next offer is within the limit of the cheapest that is left', () => {
    const offers = [
      priced('bait', 1),
      ...[4_000, 4_100, 4_200].map(price => priced(`expensive-${price}`, price)),
      priced('dear-local', 250, { kind: 'local' }),
      cloud,
      priced('near', 120),
    ]
    for (const tier of ['balanced', 'fastest'] as const) {
      const random = seededRandom(3)
      for (let n = 0; n < 200; n++) {
        const names = namesOf(offers, tier, {}, random)
        const costs = names.map(name => offers.find(({ endpoint }) => endpoint.name === name)!.price.inputPicoPerToken)
        for (const [at, cost] of costs.entries()) {
          const lowest = costs.slice(at).reduce((a, b) => (b < a ? b : a))
          expect(cost * 100n <= lowest * (tier === 'balanced' ? 150n : 300n)).toBe(true)
        }
      }
    }
  })

  test("the operator's own servers may cost more by a setting, with every tier", () => {
    const local = priced('local', 200, { kind: 'local' })
    const priceLimits = { balancedPercent: 150, fastestPercent: 300, localPercent: 200 }
    for (const tier of ['cheapest', 'balanced', 'fastest'] as const) {
      expect(firsts([cloud, local], tier, { priceLimits })).toEqual({ local: 2_000 })
    }
    const pricier = priced('local', 201, { kind: 'local' })
    expect(firsts([cloud, pricier], 'cheapest', { priceLimits })).toEqual({ cloud: 2_000 })
    expect(namesOf([hoster(50), cloud, local], 'cheapest', { priceLimits })).toEqual(['hoster', 'cloud', 'local'])
  })

  test('a warm prompt cache, exploration and newcomers change nothing about it', () => {
    const health = healthOf({ 'cloud/m': { predictedMs: 100 } })
    for (const tier of ['cheapest', 'balanced', 'fastest'] as const) {
      expect(firsts([hoster(4_000), cloud], tier, { health, stickyOfferId: 'hoster/m' })).toEqual({ cloud: 2_000 })
      const newcomer = (id: string) => (id === 'hoster/m' ? ('open' as const) : ('none' as const))
      expect(firsts([hoster(4_000), cloud], tier, { health, newcomer })).toEqual({ cloud: 2_000 })
    }
  })

  test('a full server comes after others, but before clouds at more than three times its price', () => {
    const health = healthOf({ 'local/m': { share: 0 } })
    const local = priced('local', 100, { kind: 'local' })
    for (const tier of ['cheapest', 'balanced', 'fastest'] as const) {
      const at = (perMillion: number) => priced('cloud', perMillion, { kind: 'cloud' })
      expect(namesOf([local, hoster(900)], tier, { health })).toEqual(['hoster', 'local'])
      expect(namesOf([local, at(300)], tier, { health })).toEqual(['cloud', 'local'])
      expect(namesOf([local, at(301)], tier, { health })).toEqual(['local', 'cloud'])
      expect(namesOf([local, hoster(200), at(900)], tier, { health })).toEqual(['hoster', 'local', 'cloud'])
    }
  })

  test('a hoster at a comparable price only for short answers comes after the others of that price', () => {
    const lopsided = priced('lopsided', 0, { price: { inputPicoPerToken: 1n, outputPicoPerToken: 4_000n } })
    const plain = priced('plain', 100)
    const job = jobOf({ inputTokensBound: 40_000, maxTokens: 8_192 })
    const first = (offers: readonly Offer[]) => {
      const ticket = { ...ticketOf(offers), maxTokens: 8_192 }
      return route(ticket, job, { health: healthOf() }, () => 0.5).offers.map(({ endpoint }) => endpoint.name)
    }
    expect(first([lopsided, cloud])).toEqual(['cloud', 'lopsided'])
    expect(first([lopsided, cloud, plain])).toEqual(['plain', 'cloud', 'lopsided'])
    // Another hoster is no measure: its own prices may be the strange ones.
    expect(first([lopsided, plain])).toContain('lopsided')
  })
})

test('fallback models come after every offer of the first model; auto is one pool of all unnamed models', () => {
  const offers = [
    priced('first-cloud', 9, { kind: 'cloud', modelId: 'first' }),
    priced('first', 8, { modelId: 'first' }),
    priced('x', 2, { modelId: 'x' }),
    priced('y', 1, { modelId: 'y' }),
  ]
  expect(namesOf(offers, 'cheapest', {}, () => 0.5, ['first', 'x', 'y'])).toEqual(['first', 'first-cloud', 'x', 'y'])
  expect(namesOf(offers, 'cheapest', {}, () => 0.5, ['first', 'auto'])).toEqual(['first', 'first-cloud', 'y', 'x'])
})

test('balanced: the first place is drawn by 1/(price x latency x (in flight + 1)), sharpened, x trust²', () => {
  const measured = (ms: number) => ({ predictedMs: ms })
  const close = (counts: Record<string, number>, name: string, share: number) =>
    expect(Math.abs((counts[name] ?? 0) / 2_000 - share)).toBeLessThan(0.03)
  const health = healthOf({
    'a/m': measured(100),
    'b/m': measured(100),
    'slow/m': measured(125),
    'busy/m': { predictedMs: 40, inFlight: 2 },
  })
  close(firsts([priced('a', 100), priced('b', 110)], 'balanced', { health }), 'a', 1.1 ** 6 / (1.1 ** 6 + 1))
  close(firsts([priced('a', 100), priced('slow', 100)], 'balanced', { health }), 'a', 1.25 ** 6 / (1.25 ** 6 + 1))
  close(firsts([priced('a', 100), priced('busy', 100)], 'balanced', { health }), 'a', 1.2 ** 6 / (1.2 ** 6 + 1))
  close(firsts([priced('a', 100), priced('b', 100, { trustScore: 0.5 })], 'balanced', { health }), 'a', 4 / 5)
})

test('balanced: a free server gets most, a hoster without trust little, an unmeasured one a typical share', () => {
  const known = healthOf({
    'free/m': { predictedMs: 100 },
    'paid/m': { predictedMs: 100 },
    'new/m': { predictedMs: 100 },
  })
  const free = firsts([priced('free', 0, { kind: 'local' }), priced('paid', 1_000)], 'balanced', { health: known })
  expect(free.free).toBeGreaterThan(1_900)
  const untrusted = firsts([priced('paid', 100), priced('new', 100, { trustScore: 0 })], 'balanced', { health: known })
  expect(untrusted.new).toBeGreaterThan(0)
  expect(untrusted.new).toBeLessThan(40)
  const unmeasured = firsts([priced('paid', 100), priced('other', 100)], 'balanced', { health: known })
  expect(unmeasured.other).toBeGreaterThan(900)
})

test('fastest: the offer with the lower latency x (in flight + 1) is first', () => {
  const health = (inFlight: number) =>
    healthOf({ 'quick/m': { predictedMs: 100, inFlight }, 'slow/m': { predictedMs: 250 } })
  const offers = [priced('slow', 1), priced('quick', 3)]
  expect(firsts(offers, 'fastest', { health: health(0) }).quick).toBeGreaterThan(1_990)
  expect(firsts(offers, 'fastest', { health: health(3) }).slow).toBeGreaterThan(1_980)
})

test('fastest: offers of nearly the same latency share the requests, a slow one hardly gets any', () => {
  const health = healthOf({ 'a/m': { predictedMs: 100 }, 'b/m': { predictedMs: 105 }, 'c/m': { predictedMs: 200 } })
  const counts = firsts([priced('c', 1), priced('b', 1), priced('a', 1)], 'fastest', { health })
  expect(counts.c ?? 0).toBeLessThan(5)
  expect(counts.b).toBeGreaterThan(500)
  expect(counts.a).toBeGreaterThan(counts.b!)
})

test('about 3 % of requests try an unmeasured server first, but never with cheapest', () => {
  const health = healthOf({ 'fast/m': { predictedMs: 100 }, 'new/m': { predictedMs: null, inFlight: 5 } })
  const offers = [priced('fast', 1), priced('new', 2)]
  const { new: explored = 0 } = firsts(offers, 'fastest', { health })
  expect(explored).toBeGreaterThan(20)
  expect(explored).toBeLessThan(100)
  expect(firsts(offers, 'cheapest', { health })).toEqual({ fast: 2_000 })
})

test('fastest: an unmeasured server counts as a typical one', () => {
  const health = healthOf({ 'a/m': { predictedMs: 100 }, 'b/m': { predictedMs: 200 }, 'new/m': { predictedMs: null } })
  const counts = firsts([priced('a', 1), priced('b', 1), priced('new', 1)], 'fastest', { health })
  // The share of exploration, and little more: the typical latency is that of b.
  expect(counts.new).toBeGreaterThan(20)
  expect(counts.new).toBeLessThan(120)
  const alike = healthOf({ 'a/m': { predictedMs: 100 }, 'b/m': { predictedMs: 100 }, 'new/m': { predictedMs: null } })
  expect(firsts([priced('a', 1), priced('b', 1), priced('new', 1)], 'fastest', { health: alike }).new).toBeGreaterThan(
    500,
  )
})

test('ejected offers come last, the shortest ejection first', () => {
  const offers = [
    priced('ejected', 1, { modelId: 'm' }),
    priced('worse', 1, { modelId: 'm' }),
    priced('cloud', 9, { kind: 'cloud' }),
    priced('fallback', 9, { modelId: 'f' }),
  ]
  const health = healthOf({
    'ejected/m': { state: 'ejected', ejectedForMs: 10 },
    'worse/m': { state: 'ejected', ejectedForMs: 99 },
  })
  expect(namesOf(offers, 'cheapest', { health }, () => 0.5, ['m', 'f'])).toEqual([
    'cloud',
    'fallback',
    'ejected',
    'worse',
  ])
})

test('a warm prompt cache wins if its offer is not much worse, and with cheapest never over a lower price', () => {
  const offers = [priced('best', 100), priced('warm', 120), priced('far', 1_000)]
  const health = healthOf({
    'best/m': { predictedMs: 100 },
    'warm/m': { predictedMs: 110 },
    'far/m': { predictedMs: 1_000 },
  })
  const first = (tier: ServiceTier, stickyOfferId: string) => firsts(offers, tier, { health, stickyOfferId })
  expect(first('balanced', 'warm/m')).toEqual({ warm: 2_000 })
  expect(first('fastest', 'warm/m')).toEqual({ warm: 2_000 })
  expect(first('balanced', 'far/m').far ?? 0).toBeLessThan(100)
  expect(first('fastest', 'far/m').far).toBeUndefined()
  expect(first('cheapest', 'warm/m')).toEqual({ best: 2_000 })
})

test('with fastest a warm prompt cache wins at any price that the tier allows', () => {
  const offers = [priced('best', 100), priced('expensive', 300)]
  const health = healthOf({ 'best/m': { predictedMs: 100 }, 'expensive/m': { predictedMs: 110 } })
  expect(firsts(offers, 'fastest', { health, stickyOfferId: 'expensive/m' })).toEqual({ expensive: 2_000 })
})

test('a warm prompt cache does not win if its offer is slow, busy, on trial or unmeasured', () => {
  const offers = [priced('best', 100), priced('warm', 100)]
  const first = (tier: ServiceTier, warm: NonNullable<Parameters<typeof healthOf>[0]>[string]) => {
    const health = healthOf({ 'best/m': { predictedMs: 100 }, 'warm/m': warm })
    return firsts(offers, tier, { health, stickyOfferId: 'warm/m' })
  }
  expect(first('balanced', { predictedMs: 1_000 }).warm ?? 0).toBeLessThan(5)
  expect(first('fastest', { predictedMs: 110, inFlight: 1 }).best).toBeGreaterThan(1_990)
  expect(first('fastest', { predictedMs: 110, state: 'probing' }).best).toBeGreaterThan(1_300)
  expect(first('balanced', { predictedMs: null }).warm).toBeLessThan(1_400)
})

test('offers that may cut the answer short come after the others of their model, even after clouds', () => {
  const small = { maxOutputTokens: 4_096, contextTokens: 200_000 }
  const ample = { maxOutputTokens: 8_192, contextTokens: 200_000 }
  const large = { maxOutputTokens: 64_000, contextTokens: 200_000 }
  const names = (maxTokens: number, offers: Offer[]) => {
    const job = jobOf({ maxTokens, constraints: { serviceTier: 'cheapest' } })
    return route({ ...ticketOf(offers), maxTokens }, job, { health: healthOf() }, () => 0.5).offers.map(
      ({ endpoint }) => endpoint.name,
    )
  }
  const offers = [
    offerOf({ name: 'small', ...small }),
    priced('ample', 2, ample),
    priced('large', 3, large),
    offerOf({ name: 'cloud', kind: 'cloud', ...large }),
  ]
  expect(names(4_096, offers)).toEqual(['ample', 'large', 'small', 'cloud'])
  expect(names(32_000, offers)).toEqual(['ample', 'large', 'cloud', 'small'])
  expect(names(4_096, [offerOf({ name: 'tiny', maxOutputTokens: 100 }), priced('ample', 900_000_000, ample)])).toEqual([
    'ample',
    'tiny',
  ])
})

test('a plan has the figures behind the rank of each offer', () => {
  const health = healthOf({ 'a/m': { predictedMs: 100, inFlight: 2, state: 'probing' } })
  const { ranks } = route(ticketOf([priced('a', 100)]), jobOf(), { health }, () => 0.5)
  expect(ranks).toMatchObject([{ costPicos: 35_600n, predictedMs: 100, trust: 1, inFlight: 2, state: 'probing' }])
})

const noted = (offers: readonly Offer[], job = jobOf(), excluded: Ticket['excluded'] = []) => {
  const ticket = { ...ticketOf(offers), excluded }
  const { ranks } = route(ticket, job, { health: healthOf() }, () => 0.5)
  return routingNote(ticket, job, ranks, null, { stickyOfferId: null, cloudCompetes: false })
}

test('without a choice there is no note', () => {
  const only = priced('a', 1)
  expect(noted([only], jobOf({ model: 'm' }))).toBeNull()
  expect(noted([only], jobOf({ model: 'auto' }))).toMatchObject({ model: 'auto', constraints: {} })
  expect(noted([only], jobOf({ constraints: { privacyMode: true } }))).toMatchObject({
    constraints: { privacy_mode: true },
  })
  const exclusion = { offerId: 'b/m', provider: 'cloud', reason: 'feature_missing' } as const
  expect(noted([only], jobOf(), [exclusion])).toMatchObject({ excluded: [exclusion] })
  expect(noted([only, priced('b', 1)])).toMatchObject({ ranked: [{}, {}] })
})

test('a note has the lowered max_tokens even if there was no choice', () => {
  const clamped: Ticket = {
    ...ticketOf([priced('a', 1)]),
    maxTokens: 100,
    clamp: { asked: 500, by: 'on_insufficient' },
  }
  const view = { stickyOfferId: null, cloudCompetes: false }
  expect(routingNote(clamped, jobOf(), null, null, view)?.clamp).toEqual({
    asked: 500,
    allowed: 100,
    by: 'on_insufficient',
  })
})

test('a note has the max_tokens of the server that answered if that is less than the ticket allows', () => {
  const offer = priced('a', 1, { maxOutputTokens: 200 })
  const view = { stickyOfferId: null, cloudCompetes: false }
  const clampOf = (asked: number | null) => {
    const ticket = { ...ticketOf([offer]), maxTokens: asked ?? 256 }
    return routingNote(ticket, jobOf({ maxTokens: asked }), null, offer, view)?.clamp
  }
  expect(clampOf(300)).toEqual({ asked: 300, allowed: 200, by: 'model' })
  expect([clampOf(200), clampOf(null)]).toEqual([undefined, undefined])
})

test('a note mentions a warm prompt cache only if its offer came first', () => {
  const offers = [priced('a', 1), priced('b', 2)]
  const { ranks } = route(
    ticketOf(offers),
    jobOf({ constraints: { serviceTier: 'cheapest' } }),
    { health: healthOf() },
    () => 0,
  )
  const isSticky = (stickyOfferId: string) =>
    routingNote(ticketOf(offers), jobOf(), ranks, null, { stickyOfferId, cloudCompetes: false })?.isSticky
  expect([isSticky('a/m'), isSticky('b/m')]).toEqual([true, undefined])
})

test('a note stays small in a large market and counts the omitted offers', () => {
  const offers = Array.from({ length: 300 }, (_, index) => priced(`offer-${index}`, index))
  const excluded = Array.from({ length: 30 }, (_, index) => {
    return { offerId: `x${index}/m`, provider: 'hoster', reason: 'deny_hosters' } as const
  })
  const note = noted(offers, jobOf(), excluded)!
  expect([note.ranked.length, note.excluded.length, note.leftOut]).toEqual([24, 24, 282])
  expect(JSON.stringify(note).length).toBeLessThan(6_000)
})
