import { expect, test } from 'vitest'
import { buildCatalog } from '../../src/market/supply/catalog/catalog.ts'
import { candidatesFor } from '../../src/request/admit/eligible.ts'
import { jobOf, offerOf } from './random-market.ts'

const demo = offerOf({ name: 'demo', modelId: 'demo', demo: true })
const [one, two] = ['one', 'two'].map(modelId => offerOf({ name: modelId, modelId }))
const catalogOf = (...offers: Parameters<typeof buildCatalog>[0]) => buildCatalog(offers, () => 0)

test.each([
  ['the real models', null, [], ['one', 'two']],
  ['the models that the key may use', ['two'], [], ['two']],
  ['the demo model if the key may use no real one', ['demo'], [], ['demo']],
  ['nothing if the key may use none of the existing models', ['three'], [], []],
  ['the models that are not named as fallbacks', null, ['one'], ['two', 'one']],
])('auto stands for %s', (_, allowed, fallbackModels, expected) => {
  const job = jobOf({ model: 'auto', constraints: { fallbackModels } })
  const { offers } = candidatesFor(catalogOf(demo, one!, two!), job, allowed === null ? null : new Set(allowed))
  expect(offers.map(({ modelId }) => modelId)).toEqual(expected)
})

test('auto stands for the demo model if there is no other', () => {
  expect(candidatesFor(catalogOf(demo), jobOf({ model: 'auto' })).offers).toEqual([demo])
})
