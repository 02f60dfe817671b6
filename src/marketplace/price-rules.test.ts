import { describe, expect, test } from 'vitest'
import type { HostedModel, HosterPrice } from '../supply/hosters/hosted-model.ts'
import { beyondBounds, planPrices } from './price-rules.ts'

const price = (input: number, output: number, cacheRead?: number): HosterPrice => ({
  inputPicoPerToken: BigInt(input),
  outputPicoPerToken: BigInt(output),
  ...(cacheRead !== undefined && { cacheReadPicoPerToken: BigInt(cacheRead) }),
})
const model = (modelId: string, prices: HosterPrice, change: Partial<HostedModel> = {}): Required<HostedModel> => ({
  modelId,
  upstreamModel: modelId,
  contextTokens: 1_000,
  maxOutputTokens: 100,
  maxConcurrent: null,
  features: ['chat'],
  ...change,
  price: prices,
})
const offered = (current: Required<HostedModel>, lowest = current.price) => ({ model: current, lowest })
const ids = (models: readonly HostedModel[]) => models.map(({ modelId }) => modelId)
const plan = (before: Parameters<typeof planPrices>[0], wanted: readonly HostedModel[]) => {
  const { now, later, withdrawn } = planPrices(before, wanted, { risePercent: 20 })
  return { now: ids(now), later: ids(later), withdrawn }
}

describe('a model that is offered at 100 in and 200 out', () => {
  test.each([
    ['stays the same', price(100, 200), 'nothing'],
    ['becomes cheaper', price(1, 2), 'now'],
    ['rises by 20 percent', price(120, 240), 'now'],
    ['rises by more in one dimension', price(100, 241), 'later'],
    ['rises by more in the other', price(121, 1), 'later'],
    ['gets a cache price below the input price', price(100, 200, 10), 'now'],
  ])('%s', (_, wanted, when) => {
    const found = plan([offered(model('m', price(100, 200)))], [model('m', wanted)])
    expect(found).toEqual({ now: when === 'now' ? ['m'] : [], later: when === 'later' ? ['m'] : [], withdrawn: [] })
  })
})

test('a cache price that is lost rises to the input price', () => {
  expect(plan([offered(model('m', price(100, 200, 10)))], [model('m', price(100, 200))]).later).toEqual(['m'])
})

test('small rises one after another count from the lowest price of the notice', () => {
  const now = offered(model('m', price(118, 200)), price(100, 200))
  expect(plan([now], [model('m', price(121, 200))]).later).toEqual(['m'])
  expect(plan([now], [model('m', price(119, 200))]).now).toEqual(['m'])
})

test('other terms of a price that rose before apply at once', () => {
  const now = offered(model('m', price(150, 200)), price(100, 200))
  expect(plan([now], [model('m', price(150, 200), { contextTokens: 2_000 })]).now).toEqual(['m'])
})

test('new models are offered, and those that are left out are withdrawn', () => {
  const found = plan([offered(model('old', price(1, 2)))], [model('new', price(1, 2))])
  expect(found).toEqual({ now: ['new'], later: [], withdrawn: ['old'] })
})

test('prices above the bounds of the operator', () => {
  const max = price(100, 400)
  expect(beyondBounds(model('m', price(100, 400)), { max })).toBeNull()
  expect(beyondBounds(model('m', price(101, 400)), { max })).toBe('input')
  expect(beyondBounds(model('m', price(100, 401)), { max })).toBe('output')
})
