import { expect, test } from 'vitest'
import { matches, newModelsOf } from './new-models.ts'

test.each([
  ['openai/*', 'openai/gpt-6', true],
  ['openai/*', 'openai/', true],
  ['openai/*', 'x/openai/gpt-6', false],
  ['*', 'anything', true],
  ['gpt-6', 'gpt-6', true],
  ['gpt-6', 'gpt-6-mini', false],
  ['*-preview', 'gpt-6-preview', true],
  ['a*b*c', 'a1b2c', true],
  ['a*b*c', 'abc', true],
  ['a*b*c', 'acb', false],
  // The end must not overlap what came before it.
  ['ab*ba', 'aba', false],
  ['gpt.6', 'gpt-6', false],
])('%s matches %s: %s', (pattern, id, expected) => {
  expect(matches(pattern, id)).toBe(expected)
})

/** What the rules make of a server's models and their list prices, at the vendor that is asked for. */
const found = (
  rules: readonly object[],
  prices: Readonly<Record<string, object | null>>,
  models: readonly object[] = [],
) =>
  newModelsOf(
    { model_rules: rules, models },
    Object.keys(prices).map(id => ({ id, contextTokens: null })),
    ({ id }, list = 'own') => ({
      entry: { id, list, ...(prices[id] && { price_per_million_usd: prices[id] }) },
      isCertain: !id.startsWith('unsure'),
    }),
  )

test('rules decide what is sold, for how much, and what is proposed', () => {
  const rules = [
    { match: 'openai/*', except: ['*-preview'], price_percent: '150', action: 'apply', price_list: 'openai' },
    { match: '*', except: ['secret/*'] },
  ]
  const steps = [{ above_input_tokens: 1000, input: '2', output: '4' }]
  const list = { input: '1', output: '0.000001', per_request_usd: '0.01', steps }
  const prices = {
    ...{ 'openai/new': list, 'openai/new-preview': { input: 3, output: 4 }, 'openai/had': list },
    ...{ 'openai/without-price': null, 'secret/one': list },
  }
  const { applied, proposed } = found(rules, prices, [{ id: 'mine', upstream_model: 'openai/had' }])
  const sold = {
    ...{ input: '1.5', output: '0.000002', per_request_usd: '0.015' },
    steps: [{ above_input_tokens: 1000, input: '3', output: '6' }],
  }
  expect(applied).toEqual([{ id: 'openai/new', list: 'openai', price_per_million_usd: sold }])
  expect(proposed).toEqual([
    { id: 'openai/new-preview', list: 'own', price_per_million_usd: { input: '3', output: '4' } },
  ])
})

test('a rule that applies only proposes a model whose price is not certain', () => {
  const prices = { unsure: { input: 1, output: 1 }, sure: { input: 1, output: 1 } }
  const { applied, proposed } = found([{ match: '*', action: 'apply' }], prices)
  expect([applied, proposed]).toMatchObject([[{ id: 'sure' }], [{ id: 'unsure' }]])
})

test('times of the day stay, and their prices are marked up', () => {
  const windows = [{ days: ['mon'], hours: '01:00-04:00', input: 2, output: 2 }]
  const { proposed } = found([{ match: '*', price_percent: 200 }], { m: { input: 1, output: 1, windows } })
  expect(proposed).toMatchObject([
    {
      price_per_million_usd: {
        windows: [{ days: ['mon'], hours: '01:00-04:00', input: '4', output: '4' }],
      },
    },
  ])
})
