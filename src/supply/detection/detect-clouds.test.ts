import { expect, test } from 'vitest'
import { healthOf, jobOf } from '../../../test/supply/random-market.ts'
import { eligible } from '../../admit/eligible.ts'
import { hidesReasoningAt } from '../../domain/endpoint-defaults.ts'
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
  ['anthropic', 'short'],
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

// What the vendors charged in November 2026 per million tokens: input, writing it to the prompt cache, output.
test.each([
  ['openai', 'gpt-6.1-sol', 2, 2.5, 10],
  ['openai', 'gpt-6-sol', 2, 2.5, 10],
  ['openai', 'gpt-6-luna', 0.1, 0.125, 0.5],
  ['openai', 'gpt-5.6-sol', 4, 5, 20],
  ['openai', 'gpt-5.6-terra', 2, 2.5, 12],
  ['openai', 'gpt-5.6-luna', 0.2, 0.25, 1.2],
  // Caching must be asked for with cache_control, which is not forwarded.
  ['anthropic', 'claude-opus-5-5', 4, 4, 20],
  ['anthropic', 'claude-sonnet-5-5', 2, 2, 10],
  ['anthropic', 'claude-haiku-5-5', 0.1, 0.1, 0.5],
])('%s %s is sold at its highest price', (cloud, modelId, input, written, output) => {
  const { models } = cloudPresets.find(({ name }) => name === cloud)!
  const { inputPrice, outputPrice } = models.find(model => model.modelId === modelId)!
  expect([Number(inputPrice), Number(outputPrice)]).toEqual([Math.max(input, written), output])
})

test('models of OpenAI that accept tools only without reasoning say so, and GPT-6.1 offers none', () => {
  const { models } = cloudPresets.find(({ name }) => name === 'openai')!
  const newest = models.filter(({ modelId }) => /^gpt-(5\.[4-9]|[6-9])/.test(modelId))
  expect(newest.length).toBeGreaterThan(3)
  for (const { features, quirks } of newest) expect(quirks!.exclusiveReasoning).toBe(features.includes('tools'))
  expect(models.find(({ modelId }) => modelId === 'gpt-6.1-sol')!.features).not.toContain('tools')
})

test('prompts for which a cloud charges more are not sold at the lower price', () => {
  const [anthropic] = detectClouds({ ANTHROPIC_API_KEY: 'k' })
  const haiku = anthropic!.offers.filter(({ modelId }) => modelId === 'claude-haiku-5-5')
  const fits = (bytes: number) => eligible(haiku, jobOf({ inputTokensBound: bytes }), healthOf()).eligible.length === 1
  expect([fits(280_000), fits(290_000)]).toEqual([true, false])
  expect(haiku[0]).toMatchObject({ contextTokens: 1_000_000, promptTokensMax: 100_000 })
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
