import { calcPrice, type Usage } from '@pydantic/genai-prices'
import { expect, test } from 'vitest'
import type { UsageParts } from '../../../base/domain/answer-event.ts'
import { hidesReasoningAt } from '../../../base/domain/endpoint-defaults.ts'
import { billedCost, stepOf, usdPerMillion } from '../../../base/domain/money.ts'
import { offerPrice } from '../../../base/domain/price-list.ts'
import { cloudPresets } from './cloud-presets.ts'
import { detectClouds } from './detect-clouds.ts'

test('a cloud is offered when its key is set, at its list prices', () => {
  const [openai, ...others] = detectClouds({ OPENAI_API_KEY: ' sk-x ', GROQ_API_KEY: '', PATH: '/bin' })
  expect(others).toEqual([])
  const mini = openai!.offers.find(offer => offer.modelId === 'gpt-4o-mini')
  expect(mini).toMatchObject({
    offerId: 'openai/gpt-4o-mini',
    endpoint: { kind: 'cloud', apiKey: 'sk-x', dialect: { maxTokensField: 'max_completion_tokens' } },
    price: { inputPicoPerToken: 150_000n, outputPicoPerToken: 600_000n },
  })
  // Its images cost many times the amount that is held and billed.
  expect(mini!.features).not.toContain('images')
  expect(openai!.finding.models).toContain('gpt-4o-mini')
  expect(JSON.stringify(openai!.finding)).not.toContain('sk-x')
})

test('a cloud without known prices is listed, offers nothing, and says what to add', () => {
  const [openrouter] = detectClouds({ OPENROUTER_API_KEY: 'sk-or' })
  expect(openrouter!.offers).toEqual([])
  expect(openrouter!.finding.note).toContain('Declare an endpoint "openrouter"')
})

test('a declared cloud is not detected', () => {
  expect(detectClouds({ OPENAI_API_KEY: 'sk-x' }, new Set(['openai']))).toEqual([])
})

test('every preset is complete: https, valid prices above zero, unique ids', () => {
  const keys = Object.fromEntries(cloudPresets.map(({ keyVariable }) => [keyVariable, 'k']))
  const offers = detectClouds(keys).flatMap(({ offers }) => offers)
  for (const { endpoint, price, contextTokens, maxOutputTokens, features } of offers) {
    expect(endpoint.baseUrl).toMatch(/^https:\/\/.*[^/]$/)
    expect(price.inputPicoPerToken).toBeGreaterThan(0n)
    expect(price.outputPicoPerToken > 0n).toBe(!features.has('embeddings'))
    expect(maxOutputTokens).toBeLessThanOrEqual(contextTokens)
  }
  expect(new Set(offers.map(({ offerId }) => offerId)).size).toBe(offers.length)
})

test.each([
  ['openai', 'short'],
  ['mistral', 'nine'],
  ['groq', 'any'],
])('%s accepts %s ids of tool calls', (name, ids) => {
  expect(cloudPresets.find(preset => preset.name === name)!.dialect.toolCallIds).toBe(ids)
})

test.each(['mistral', 'groq'])('%s gets no answer fields that only other servers accept', name => {
  const { dialect } = cloudPresets.find(preset => preset.name === name)!
  const echoed = ['refusal', 'annotations', 'reasoning', 'reasoning_content', 'reasoning_details', 'extra_content']
  for (const field of [...echoed, 'tool_calls[].extra_content']) {
    expect(dialect.dropFields).toContain(`messages[].${field}`)
  }
})

// What the vendors charged in November 2026 per million tokens: input, read from and written to the cache, output.
test.each([
  ['openai', 'gpt-6.1-sol', 2, 0.1, 2.5, 10],
  ['openai', 'gpt-6-sol', 2, 0.2, 2.5, 10],
  ['openai', 'gpt-6-luna', 0.1, 0.01, 0.125, 0.5],
  ['openai', 'gpt-5.6-sol', 4, 0.4, 5, 20],
  ['openai', 'gpt-5.6-terra', 2, 0.2, 2.5, 12],
  ['openai', 'gpt-5.6-luna', 0.2, 0.02, 0.25, 1.2],
  ['anthropic', 'claude-opus-5-5', 4, 0.2, 5, 20],
  ['anthropic', 'claude-sonnet-5-5', 2, 0.2, 2.5, 10],
  ['anthropic', 'claude-haiku-5-5', 0.1, 0.01, 0.125, 0.5],
])('%s %s is sold at its list prices', (cloud, modelId, input, read, written, output) => {
  const { price } = offerOf(cloud, modelId)
  const { parts } = stepOf(price.terms!, 0)
  const picos = [price.inputPicoPerToken, parts.cache_read, parts.cache_write, price.outputPicoPerToken]
  expect(picos.map(usdPerMillion)).toEqual([input, read, written, output])
})

function offerOf(cloud: string, modelId: string) {
  const keys = Object.fromEntries(cloudPresets.map(({ keyVariable }) => [keyVariable, 'k']))
  return detectClouds(keys)
    .flatMap(({ offers }) => offers)
    .find(({ offerId }) => offerId === `${cloud}/${modelId}`)!
}

/** Newer than the data of genai-prices, or known to it under the price of another model. */
const unknownToGenaiPrices = ['gpt-6.1-sol', 'claude-sonnet-5-5', 'claude-haiku-5-5', 'deepseek-flash']
/** Deliberately above the list price of the data: see cloud-presets.ts. */
const soldAbove = ['gemini-3.7-flash', 'meta-llama/Llama-3.3-70B-Instruct-Turbo']
const noonMs = Date.UTC(2026, 10, 23, 12)

const known = cloudPresets.flatMap(({ name, models }) =>
  models
    .filter(({ modelId }) => !unknownToGenaiPrices.includes(modelId))
    .map(({ modelId }) => [name, modelId] as const),
)

test.each(known)('%s %s costs what genai-prices knows, with caches and long prompts', (cloud, modelId) => {
  const { price } = offerOf(cloud, modelId)
  const oracle = (usage: Usage) => {
    const found = calcPrice(usage, modelId, {
      providerId: cloud === 'gemini' ? 'google' : cloud,
      timestamp: new Date(noonMs),
    })
    return found!.total_price
  }
  const parts = (input: number, more: Partial<UsageParts>) => ({
    ...{ freshTokens: input, cacheReadTokens: 0, cacheWriteTokens: 0, cacheWriteLongTokens: 0 },
    ...{ outputTokens: 0, reasoningTokens: null },
    ...more,
  })
  for (const input of [10_000, 300_000]) {
    const cases: [Usage, UsageParts | null, number][] = [
      [{ input_tokens: input }, null, 0],
      [{ input_tokens: input, output_tokens: 1_000 }, null, 1_000],
      [{ input_tokens: input, cache_read_tokens: input }, parts(0, { cacheReadTokens: input }), 0],
      [{ input_tokens: input, cache_write_tokens: input }, parts(0, { cacheWriteTokens: input }), 0],
    ]
    for (const [usage, split, output] of cases) {
      const ours = Number(billedCost(price, input, output, split).nanos) / 1e9
      if (soldAbove.includes(modelId)) expect(ours).toBeGreaterThanOrEqual(oracle(usage))
      else expect(ours, JSON.stringify(usage)).toBeCloseTo(oracle(usage), 8)
    }
  }
})

test('DeepSeek costs twice as much in its two windows on weekdays', () => {
  const { timedPrices } = offerOf('deepseek', 'deepseek-v4-pro')
  const at = (day: number, hour: number) => offerPrice(timedPrices!, 'cloud', Date.UTC(2026, 10, day, hour))
  // 23 November 2026 is a Monday.
  const hours = [at(23, 0), at(23, 1), at(23, 4), at(23, 9), at(23, 10), at(22, 2)]
  expect(hours.map(price => usdPerMillion(price.inputPicoPerToken))).toEqual([0.66, 1.32, 0.66, 1.32, 0.66, 0.66])
})

test('models of OpenAI that accept tools on chat only without reasoning say so, and reason with tools on responses', () => {
  const { models } = cloudPresets.find(({ name }) => name === 'openai')!
  const newest = models.filter(({ modelId }) => /^gpt-(5\.[4-9]|[6-9])/.test(modelId))
  expect(newest.length).toBeGreaterThan(3)
  for (const { features, speaks, quirks } of newest) {
    expect([features.includes('tools'), speaks![0]]).toEqual([true, 'responses'])
    // Without tools on chat, a model does not speak it.
    expect(quirks!.exclusiveReasoning).toBe(speaks!.includes('chat'))
  }
  expect(models.find(({ modelId }) => modelId === 'gpt-6.1-sol')!.speaks).toEqual(['responses'])
})

test('prompts for which a cloud charges more are sold at its higher price, for the whole request', () => {
  const { price } = offerOf('anthropic', 'claude-haiku-5-5')
  const usdOf = (input: number) => Number(billedCost(price, input, 1_000, null).nanos) / 1e9
  expect(usdOf(100_000)).toBeCloseTo(0.01 + 0.0005, 12)
  expect(usdOf(100_001)).toBeCloseTo(0.0500005 + 0.0025, 12)
})

test('only Gemini hides reasoning in the total of its reports', () => {
  const hiding = cloudPresets.filter(({ dialect }) => dialect.hidesReasoning).map(({ name }) => name)
  expect(hiding).toEqual(['gemini'])
  for (const { dialect, baseUrl, name } of cloudPresets)
    expect([name, hidesReasoningAt(baseUrl)]).toEqual([name, dialect.hidesReasoning])
})

test.each([
  ['https://api.x.ai/v1', true],
  ['https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi', true],
  ['https://aiplatform.googleapis.com/v1', true],
  ['https://api.x.ai.example.com/v1', false],
  ['https://example.com/api.x.ai/v1', false],
  ['http://127.0.0.1:11434/v1', false],
])('the address %s hides reasoning: %s', (baseUrl, expected) => {
  expect(hidesReasoningAt(baseUrl)).toBe(expected)
})
