import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { cloudPresets } from '../../src/market/supply/detection/cloud-presets.ts'
import { detectClouds } from '../../src/market/supply/detection/detect-clouds.ts'
import { loadPriceLibrary, priceLibrary } from '../../src/market/supply/providers/price-library.ts'
import { presetAt, providerPresets } from '../../src/market/supply/providers/provider-presets.ts'
import { readEndpoint } from '../../src/start/config/read-endpoint.ts'

const example = { id: 'example', price_per_million_usd: { input: '1', output: '2' } }
const address = (url: unknown) => String(url).replace(/[A-Z]{2,}/g, 'eu-west-1')

test.each(providerPresets)('the preset $id is a valid entry of endpoints', ({ id, settings, models }) => {
  const base = { name: id, ...settings, base_url: address(settings.base_url) }
  expect(readEndpoint({ ...base, models: [example, ...models] })).toHaveLength(models.length + 1)
})

test.each(cloudPresets.filter(({ models }) => models.length > 0))(
  'the preset $name offers what a key in the environment offers',
  ({ name, keyVariable }) => {
    const [detected] = detectClouds({ [keyVariable]: 'key' })
    const { settings, models } = providerPresets.find(({ id }) => id === name)!
    const offers = readEndpoint({ name, ...settings, models, api_key: 'key' })
    const comparable = (list: typeof offers) =>
      list.map(({ endpoint: { origin: _, timeouts: __, ...endpoint }, cost: ___, quirks, speaks, ...offer }) => ({
        ...{ ...offer, endpoint, speaks: speaks ?? ['chat'] },
        quirks: { dropFields: [], exclusiveReasoning: false, thinking: 'adaptive', ...quirks },
      }))
    expect(comparable(offers)).toEqual(comparable(detected!.offers))
  },
)

test('an address names its vendor', () => {
  expect(presetAt('https://api.openai.com/v1')?.id).toBe('openai')
  expect(presetAt('https://acme.openai.azure.com/openai/v1')?.id).toBe('azure')
  expect(presetAt('https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1')?.id).toBe('bedrock')
  expect(presetAt('http://127.0.0.1:8000/v1')).toBeUndefined()
})

test('the library that is shown is the one that is installed', () => {
  const manifest = new URL('../../node_modules/@pydantic/genai-prices/package.json', import.meta.url)
  expect(JSON.parse(readFileSync(manifest, 'utf8'))).toMatchObject({
    name: priceLibrary.name,
    version: priceLibrary.version,
  })
})

test('prices of the library are those of switchyard.yaml, with steps, and never of another vendor', async () => {
  const find = await loadPriceLibrary()
  expect(find('openai', 'gpt-4o-mini')).toEqual({
    contextTokens: 128_000,
    prices: { input: '0.15', output: '0.6', cache_read: '0.075' },
    isCertain: true,
  })
  expect(find('google', 'gemini-2.5-pro')!.prices).toMatchObject({
    input: '1.25',
    output: '10',
    steps: [{ above_input_tokens: 200_000, input: '2.5', output: '15' }],
  })
  expect(find('openai', 'no-such-model')).toBeNull()
  expect(find('mistral', 'gpt-4o')).toBeNull()
  for (const [provider, model] of [
    ['openai', 'gpt-4o'],
    ['anthropic', 'claude-sonnet-4-5'],
    ['google', 'gemini-2.5-flash'],
    ['groq', 'llama-3.3-70b-versatile'],
  ] as const)
    expect(
      readEndpoint({
        ...{ name: 'x', kind: 'cloud', base_url: 'https://example.com/v1' },
        models: [{ id: model, price_per_million_usd: find(provider, model)!.prices }],
      }),
    ).toHaveLength(1)
})

test.each([
  ['openai', 'gpt-4o', true],
  ['openai', 'gpt-4o-2024-11-20', true],
  ['anthropic', 'claude-sonnet-5', true],
  ['anthropic', 'claude-sonnet-5-20270115', true],
  // Found by the prefix of an older model.
  ['anthropic', 'claude-sonnet-5-5', false],
  ['anthropic', 'claude-sonnet-5-5-20270115', false],
  // Cheaper at night.
  ['deepseek', 'deepseek-chat', false],
  // Without a price of the output.
  ['openai', 'text-embedding-3-small', false],
])('the price of %s %s can be applied: %s', async (provider, model, isCertain) => {
  const find = await loadPriceLibrary()
  expect(find(provider, model)).toMatchObject({ isCertain })
})
