import { expect, test } from 'vitest'
import { chargeTerms } from '../../console/src/features/activity/charge-terms.ts'

type Receipt = Parameters<typeof chargeTerms>[0]

const nothing = { input: null, output: null }
const receipt = (change: Partial<Receipt>, tokens: Partial<Receipt['tokens']> = {}): Receipt => ({
  success: true,
  cost_usd: 0.0000169,
  written_off_usd: 0,
  price: {
    ...{ group: null, version: null, input_usd_per_million: 0.1, output_usd_per_million: 0.4 },
    ...{ cache_read_usd_per_million: 0.1, cache_write_usd_per_million: 0.1 },
  },
  tokens: {
    ...{ source: 'gateway', billed: { input: 9, output: 40 }, counted: nothing, reported: nothing },
    ...{ parts: [], reasoning: null, ...tokens },
  },
  ...change,
})

test('a charge is the sum of tokens at their prices, less what the customer does not pay', () => {
  expect(chargeTerms(receipt({}))).toBe('= 9 input × 0.1 + 40 output × 0.4, in USD per million tokens')
  // The hold had only 15 of the 16.9 millionths.
  expect(chargeTerms(receipt({ cost_usd: 0.000015, written_off_usd: 0.0000019 }))).toBe(
    '= 9 input × 0.1 + 40 output × 0.4, in USD per million tokens, less 0.0000019 USD that you do not pay',
  )
  const parts = [
    { kind: 'cache_read' as const, usd_per_million: 0.01, tokens: 4 },
    { kind: 'request' as const, usd_per_million: 1_000, tokens: 1 },
  ]
  expect(chargeTerms(receipt({}, { parts }))).toBe(
    '= 5 input × 0.1 + 4 cache read × 0.01 + 40 output × 0.4, in USD per million tokens + 0.001 for the request',
  )
})

const free = { cost_usd: 0 }
const zeroPrice = { ...receipt({}).price, input_usd_per_million: 0, output_usd_per_million: 0 }

test.each([
  ['its price is zero', receipt({ ...free, price: zeroPrice }), 'The price of this model is zero.'],
  ['it failed', receipt({ ...free, success: false }), 'A request that fails costs nothing.'],
  [
    'it has no output',
    receipt(free, { source: 'none', billed: { input: 0, output: 0 } }),
    'No output was generated, so it costs nothing.',
  ],
  [
    'its lease had expired',
    receipt({ ...free, written_off_usd: 0.0000169 }),
    'You do not pay 0.0000169 USD of it: the money set aside for it was free again before its tokens were counted.',
  ],
  [
    'only its output has a price',
    receipt({ ...free, price: { ...zeroPrice, output_usd_per_million: 1 } }, { billed: { input: 9, output: 0 } }),
    'No billed token has a price.',
  ],
])('a request is free because %s', (_, shown, reason) => {
  expect(chargeTerms(shown)).toBe(reason)
})
