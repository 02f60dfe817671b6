import { expect, test } from 'vitest'
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
  for (const { endpoint, price, contextTokens, maxOutputTokens } of offers) {
    expect(endpoint.baseUrl).toMatch(/^https:\/\/.*[^/]$/)
    expect(price.inputPicoPerToken).toBeGreaterThan(0n)
    expect(price.outputPicoPerToken).toBeGreaterThan(0n)
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
