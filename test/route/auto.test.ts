import { describe, expect, test, vi } from 'vitest'
import type { AutoSettings, TaskClass } from '../../src/base/domain/auto-table.ts'
import { autoFeatures } from '../../src/base/domain/auto-table.ts'
import type { ServiceTier } from '../../src/base/domain/chat-job.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { createModelChoice } from '../../src/request/route/auto/choose-models.ts'
import { type RouteView, route } from '../../src/request/route/route.ts'
import { healthOf, jobOf, offerOf, seededRandom } from '../supply/random-market.ts'

const offer = (modelId: string, perMillion: number, more: Parameters<typeof offerOf>[0] = {}) =>
  offerOf({
    name: `server of ${modelId}`,
    modelId,
    price: { inputPicoPerToken: BigInt(perMillion), outputPicoPerToken: BigInt(perMillion) },
    ...more,
  })
const pool = [offer('small', 10), offer('coder', 30), offer('large', 100, { kind: 'cloud' })]

const figures = (quality: Record<string, Partial<Record<TaskClass, number>>>, more: Partial<AutoSettings> = {}) => ({
  table: null,
  quality: new Map(Object.entries(quality)),
  qualityFloor: 0.7,
  costWeight: 0.3,
  exploredPart: 0,
  ...more,
})
const usual = figures({
  small: { general: 0.75, code: 0.4 },
  coder: { general: 0.6, code: 0.9 },
  large: { general: 0.95 },
})

function choose(
  tier: ServiceTier,
  settings: AutoSettings = usual,
  view: Partial<RouteView> = {},
  text = 'Tell me about the history of bread.',
  offers: readonly Offer[] = pool,
  random = () => 0.5,
) {
  const forward = { messages: [{ role: 'user', content: text }] }
  const job = jobOf({ model: 'auto', forward, constraints: { serviceTier: tier } })
  const ticket = {
    requestId: '',
    hold: { leaseId: '', nanos: 0n, isOpen: true },
    caller: {} as never,
    startedAtEpochMs: 0,
    startedMonotonicMs: 0,
    models: ['auto'],
    eligible: offers,
    excluded: [],
    maxTokens: 256,
    clamp: null,
    label: null,
  }
  const fault = vi.fn()
  const plan = route(ticket, job, { health: healthOf(), auto: createModelChoice(settings, fault), ...view }, random)
  return { models: plan.offers.map(({ modelId }) => modelId), auto: plan.auto, fault }
}

const CODE = 'Fix this bug: ```function add(a, b) { return a - b; }```'

describe('the tier is the trade-off', () => {
  test.each([
    ['cheapest', undefined, ['small', 'large', 'coder'], 'lowest_cost', 'general'],
    ['cheapest', CODE, ['coder', 'large', 'small'], 'lowest_cost', 'code'],
    ['balanced', undefined, ['small', 'large', 'coder'], 'best_balance', 'general'],
    ['balanced', CODE, ['coder', 'large', 'small'], 'best_balance', 'code'],
  ] as const)('%s: %s', (tier, text, models, reason, taskClass) => {
    const chosen = choose(tier, usual, {}, text)
    expect(chosen.models).toEqual(models)
    expect(chosen.auto).toMatchObject({ reason, taskClass, qualityFloor: tier === 'balanced' ? null : 0.7 })
  })

  test('fastest takes the fastest model of at least the floor', () => {
    const health = healthOf({
      'server of small/small': { predictedMs: 900 },
      'server of coder/coder': { predictedMs: 10 },
      'server of large/large': { predictedMs: 300 },
    })
    const { models, auto } = choose('fastest', usual, { health })
    expect(models).toEqual(['large', 'small', 'coder'])
    expect(auto).toMatchObject({ reason: 'fastest', models: [{ modelId: 'large', quality: 0.95 }, {}, {}] })
  })

  test('the best model is first when none reaches the floor', () => {
    const { models, auto } = choose('cheapest', { ...usual, qualityFloor: 0.99 })
    expect(models).toEqual(['large', 'small', 'coder'])
    expect(auto!.reason).toBe('best_quality')
  })

  test('a model without figures counts as 0.5', () => {
    const { auto } = choose('cheapest', usual, {}, undefined, [...pool, offer('unheard-of', 1)])
    expect(auto!.models.map(({ modelId, quality }) => [modelId, quality])).toEqual([
      ['small', 0.75],
      ['large', 0.95],
      ['coder', 0.6],
      ['unheard-of', 0.5],
    ])
  })
})

test('a trained table predicts from the features, and figures of the operator for the class win', () => {
  const codeHurts = autoFeatures.map(name => (name === 'code' ? -10 : 0))
  const table = { models: { small: { bias: 3, weights: codeHurts } } }
  const settings = figures({ coder: { general: 0.6, code: 0.9 } }, { table })
  expect(choose('cheapest', settings).models[0]).toBe('small')
  expect(choose('cheapest', settings, {}, CODE).models[0]).toBe('coder')
  const overruled = figures({ small: { general: 0, code: 0.95 } }, { table })
  expect(choose('cheapest', overruled, {}, CODE).models[0]).toBe('small')
  // The name of a model may be anything.
  expect(choose('cheapest', settings, {}, CODE, [offer('constructor', 1), ...pool]).models[0]).toBe('coder')
})

describe('a conversation', () => {
  test('keeps its model although another would be chosen', () => {
    const { models, auto } = choose('cheapest', usual, { stickyModelId: 'large' }, CODE)
    expect(models).toEqual(['large', 'coder', 'small'])
    expect(auto!.reason).toBe('conversation')
  })

  test('gets another when its model has no offer', () => {
    expect(choose('cheapest', usual, { stickyModelId: 'gone' }).models[0]).toBe('small')
    const health = healthOf({ 'server of large/large': { state: 'ejected' } })
    expect(choose('cheapest', usual, { stickyModelId: 'large', health }).models).toEqual(['small', 'coder', 'large'])
  })
})

test('other models are explored only as far as the operator allows, and only above the floor', () => {
  const random = seededRandom(3)
  const firsts = (exploredPart: number, view: Partial<RouteView> = {}) => {
    const counts: Record<string, number> = {}
    for (let n = 0; n < 2_000; n++) {
      const [first] = choose('cheapest', { ...usual, exploredPart }, view, undefined, pool, random).models
      counts[first!] = (counts[first!] ?? 0) + 1
    }
    return counts
  }
  expect(firsts(0)).toEqual({ small: 2_000 })
  const { small, ...others } = firsts(0.1)
  expect(Object.keys(others)).toEqual(['large'])
  expect(others.large).toBeGreaterThan(140)
  expect(others.large).toBeLessThan(260)
  expect(firsts(0.1, { stickyModelId: 'coder' })).toEqual({ coder: 2_000 })
})

test('a request is served in the usual order when the choice fails, and without figures', () => {
  const broken = {
    ...usual,
    quality: {
      size: 1,
      get: () => {
        throw new Error('broken')
      },
    } as unknown as AutoSettings['quality'],
  }
  const { models, auto, fault } = choose('cheapest', broken)
  expect([models, auto]).toEqual([['small', 'coder', 'large'], null])
  expect(fault).toHaveBeenCalledWith(new Error('broken'))
  expect(choose('cheapest', figures({}))).toMatchObject({ models: ['small', 'coder', 'large'], auto: null })
})

test('within a model the tier orders its offers, and clouds stay the fallback', () => {
  const offers = [
    offer('small', 50, { name: 'expensive' }),
    offer('small', 1, { name: 'cloud', kind: 'cloud' }),
    offer('small', 20, { name: 'cheap' }),
    ...pool.slice(1),
  ]
  expect(choose('cheapest', usual, {}, undefined, offers).models).toEqual(['small', 'small', 'small', 'large', 'coder'])
})
