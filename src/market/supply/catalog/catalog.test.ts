import { expect, test } from 'vitest'
import type { ProviderKind } from '../../../base/domain/offer.ts'
import { plainPrices, pricesOf } from '../../../base/domain/price-list.ts'
import { fixedKey } from '../../../base/domain/sealing-keys.ts'
import { detectClouds } from '../detection/detect-clouds.ts'
import { buildCatalog, createCatalogSource } from './catalog.ts'

const [openai] = detectClouds({ OPENAI_API_KEY: 'sk-x' })
const some = openai!.offers[0]!
const offer = (name: string, kind: ProviderKind, price: [bigint, bigint], more: Partial<typeof some> = {}) => ({
  ...some,
  offerId: `${name}/${more.modelId ?? 'm'}`,
  modelId: 'm',
  endpoint: { ...some.endpoint, endpointId: name, name, kind },
  price: { inputPicoPerToken: price[0], outputPicoPerToken: price[1] },
  ...more,
})

test('a model summarises its offers', () => {
  const offers = [
    offer('a', 'hoster', [1n, 9n], { contextTokens: 10, maxOutputTokens: 5, features: new Set(['tools']) }),
    offer('b', 'hoster', [2n, 3n], { contextTokens: 20, maxOutputTokens: 4, features: new Set(['images']) }),
    offer('c', 'cloud', [7n, 7n], { contextTokens: 15, maxOutputTokens: 3, features: new Set() }),
    offer('c', 'cloud', [7n, 7n], { modelId: 'other', offerId: 'c/other' }),
  ]
  const catalog = buildCatalog(offers, id => (id === 'm' ? 1_700_000_000 : 1_800_000_000))
  expect(catalog.models.get('m')).toEqual({
    id: 'm',
    contextTokens: 20,
    maxOutputTokens: 5,
    features: new Set(['tools', 'images']),
    providerKinds: ['hoster', 'cloud'],
    prices: {
      hoster: { lowest: offers[1]!.price, highest: offers[0]!.price },
      cloud: { lowest: offers[2]!.price, highest: offers[2]!.price },
    },
    mostPerToken: { inputPicoPerToken: 7n, outputPicoPerToken: 9n },
    created: 1_700_000_000,
    ownedBy: 'switchyard',
    demo: false,
  })
  expect(catalog.models.get('other')).toMatchObject({ ownedBy: 'c', created: 1_800_000_000 })
  expect(catalog.offersOf('m')).toEqual(offers.slice(0, 3))
  expect(catalog.offersOf('nowhere')).toEqual([])
  expect(catalog.offer('c/other')).toBe(offers[3])
})

test('two offers with the same id throw at once', () => {
  const twice = offer('a', 'local', [1n, 1n])
  expect(() => buildCatalog([twice, twice], () => 0)).toThrow('Two offers have the same id: a/m')
})

test('an offer has the price of the time of the day, and a request keeps the one that it began with', () => {
  const list = {
    ...plainPrices(1n, 2n),
    windows: [{ ...plainPrices(3n, 4n), days: [0, 1, 2, 3, 4, 5, 6], fromMinute: 60, untilMinute: 120 }],
  }
  const timed = { ...offer('a', 'local', [1n, 2n]), ...pricesOf(list, 'local') }
  let nowMs = Date.UTC(2026, 10, 23)
  const source = createCatalogSource({
    configured: [timed, offer('b', 'local', [9n, 9n])],
    sql: { query: () => Promise.reject(new Error('not used')) },
    masterKeys: fixedKey(Buffer.alloc(32)),
    readEndpoint: () => [],
    allowPrivateHosters: false,
    clock: { epochMs: () => nowMs, monotonicMs: () => 0 },
    agentSlots: () => 0,
    isBudgetSpent: () => false,
    onProblem: () => {},
  })
  const inputPrice = () => source.current().offer('a/m')!.price.inputPicoPerToken
  const night = source.current()
  expect(inputPrice()).toBe(1n)
  expect(source.current()).toBe(night)
  nowMs += 3_600_000
  expect(inputPrice()).toBe(3n)
  expect(night.offer('a/m')!.price.inputPicoPerToken).toBe(1n)
  nowMs += 3_600_000
  expect(inputPrice()).toBe(1n)
  // The clock was set back into the window, and to before it.
  nowMs -= 1
  expect(inputPrice()).toBe(3n)
  nowMs -= 2 * 3_600_000
  expect(inputPrice()).toBe(1n)
})
