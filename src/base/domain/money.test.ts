import { expect, test } from 'vitest'
import {
  affordableOutputTokens,
  costNanos,
  microdollars,
  parsePricePerMillion,
  parseUsd,
  splitCost,
  usd,
  usdPerMillion,
  usdPerTokenText,
  usdText,
} from './money.ts'

const price = (inputPicoPerToken: bigint, outputPicoPerToken: bigint) => ({ inputPicoPerToken, outputPicoPerToken })

test.each([
  // 150,000 picodollars a token is 0.15 USD per million.
  [price(150_000n, 600_000n), 1_000, 100, 210_000n],
  [price(1n, 0n), 1, 0, 1n],
  [price(1n, 1n), 500, 500, 1n],
  [price(1n, 1n), 500, 501, 2n],
  [price(0n, 0n), 9, 9, 0n],
])('a cost rounds up to whole nano-USD, once for both kinds of tokens: %o, %i and %i', (at, input, output, nanos) => {
  expect(costNanos(at, input, output)).toBe(nanos)
})

test.each([
  [price(1_000n, 2_000n), 10, 30n, 10],
  [price(1_000n, 2_000n), 10, 29n, 9],
  [price(1_000n, 2_000n), 10, 10n, 0],
  [price(1_000n, 2_000n), 10, 9n, -1],
  [price(1_000n, 0n), 10, 9n, -1],
  [price(1_000n, 0n), 10, 10n, Number.MAX_SAFE_INTEGER],
  [price(0n, 1n), 10, 10n ** 18n, Number.MAX_SAFE_INTEGER],
])('a budget never affords one token too many: %o, %i, %i', (at, input, budgetNanos, tokens) => {
  expect(affordableOutputTokens(at, input, budgetNanos)).toBe(tokens)
})

test.each([
  [10n, 8_000, 8n],
  [9n, 8_000, 7n],
  [10_000n, 9_999, 9_999n],
  [9_999n, 9_999, 9_998n],
  [7n, 0, 0n],
  [7n, 10_000, 7n],
])(
  'a cost of %i and a share of %i basis points: the share rounds down, and the platform gets the rest',
  (cost, bps, hosterShareNanos) => {
    expect(splitCost(cost, bps)).toEqual({ hosterShareNanos, feeNanos: cost - hosterShareNanos })
  },
)

test.each([
  [0n, '0.00', 0],
  [1n, '0.000000001', 1e-9],
  [-1n, '-0.000000001', -1e-9],
  [100n, '0.0000001', 1e-7],
  [5_000_000_000n, '5.00', 5],
  [-5_100_000_000n, '-5.10', -5.1],
  [999_999_999_999_999n, '999999.999999999', 999_999.999999999],
])('%i nano-USD are %s USD', (nanos, text, number) => {
  expect([usdText(nanos), usd(nanos)]).toEqual([text, number])
})

test('the minimum number of decimals is kept', () => {
  expect([usdText(5_000_000_000n, 0), usdText(5_100_000_000n, 0), usdText(5_100_000_000n, 6)]).toEqual([
    '5',
    '5.1',
    '5.100000',
  ])
})

test.each([
  [499n, 0],
  [500n, 1],
  [1_499n, 1],
  [-499n, 0],
  [-500n, -1],
  [-1_499n, -1],
])('%i nano-USD are %i microdollars, rounded half away from zero', (nanos, micros) => {
  expect(microdollars(nanos)).toBe(micros)
})

test.each([
  ['5', 5_000_000_000n],
  [' 0.25 ', 250_000_000n],
  ['1.000000001', 1_000_000_001n],
  ['999999999', 999_999_999_000_000_000n],
  ['1000000000', undefined],
  ['1.0000000001', undefined],
  ...['', '.5', '5.', '-5', '+5', '1e3', '1,5', '0x5'].map((text): [string, undefined] => [text, undefined]),
])('%j is read as an amount of %s nano-USD', (text, nanos) => {
  expect(parseUsd(text)).toBe(nanos)
})

test.each([
  ['0.15', 150_000n],
  [' 3 ', 3_000_000n],
  ['0.000001', 1n],
  ['999999', 999_999_000_000n],
  ['1000000', undefined],
  ['0.0000001', undefined],
  ...['', '.5', '5.', '-5', '1e3'].map((text): [string, undefined] => [text, undefined]),
])('%j USD per million is read as %s picodollars a token', (text, pico) => {
  expect(parsePricePerMillion(text)).toBe(pico)
})

test('a price is listed as it was written', () => {
  expect(usdPerMillion(parsePricePerMillion('0.15')!)).toBe(0.15)
})

test.each([
  [0n, '0'],
  [1n, '0.000000000001'],
  [250_000n, '0.00000025'],
  [15_000_000n, '0.000015'],
  [1_000_000_000_000n, '1'],
  [2_500_000_000_000n, '2.5'],
])('%s picodollars are %s USD a token', (pico, text) => {
  expect(usdPerTokenText(pico)).toBe(text)
})
