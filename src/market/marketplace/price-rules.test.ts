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
const sold = ({ model, lowest }: ReturnType<typeof offered>) => {
  return { modelId: model.modelId, upstreamModel: model.upstreamModel!, last: model.price, lowest }
}
const plan = (before: ReturnType<typeof offered>[], wanted: readonly HostedModel[], past = before.map(sold)) => {
  const { now, later, withdrawn } = planPrices(before, wanted, past, { risePercent: 20 })
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

describe('a model that was sold at 100 in and 200 out and is not offered now', () => {
  const past = [sold(offered(model('m', price(100, 200))))]

  test('comes back at once at its last price or a little above, and with notice beyond', () => {
    expect(plan([], [model('m', price(120, 240))], past).now).toEqual(['m'])
    expect(plan([], [model('m', price(121, 240))], past).later).toEqual(['m'])
  })

  test('keeps a price that has had its notice', () => {
    const risen = [{ ...past[0]!, last: price(400, 800) }]
    expect(plan([], [model('m', price(400, 800))], risen).now).toEqual(['m'])
  })

  test('rises under another id too, but not as a second id besides it', () => {
    const renamed = model('n', price(121, 200), { upstreamModel: 'm' })
    expect(plan([], [renamed], past).later).toEqual(['n'])
    expect(plan([], [model('m', price(100, 200)), renamed], past)).toEqual({
      now: ['m', 'n'],
      later: [],
      withdrawn: [],
    })
  })
})

test('before the first sale every price applies at once', () => {
  expect(plan([offered(model('m', price(1, 2)))], [model('m', price(100, 200))], []).now).toEqual(['m'])
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
