import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { balanceText, chargeText, exactUsd, roundUsd, signedUsd, sumUsd } from '../../console/src/format/usd-text.ts'

// What the API sends: whole nano-USD as JSON numbers of USD, which keep every decimal up to eight million USD.
const NANOS_MAX = 8_000_000n * 1_000_000_000n
const nanos = fc.bigInt({ min: -NANOS_MAX, max: NANOS_MAX })
const usdOf = (amount: bigint) => Number(amount) / 1e9

/** Reads a shown amount back, in nano-USD. */
function read(text: string): bigint {
  const match = /^([+−]?)([\d,]+)(?:\.(\d+))?$/.exec(text)
  if (match === null) throw new Error(`"${text}" is no amount`)
  const [, sign, whole, decimals = ''] = match
  const size = BigInt(whole!.replaceAll(',', '') + decimals.padEnd(9, '0'))
  return sign === '−' ? -size : size
}

describe('of any amount', () => {
  test.each(Object.entries({ balanceText, chargeText, roundUsd }))(
    '%s never shows 0.00 for more than zero',
    (_, text) => {
      fc.assert(
        fc.property(nanos, amount => {
          expect(read(text(usdOf(amount))) === 0n).toBe(amount === 0n)
        }),
        { numRuns: 2_000, examples: [[1n], [-1n], [999n], [9_999_999n], [10_000_000n], [-4_999_999n], [0n]] },
      )
    },
  )

  test('charges keep every decimal', () => {
    fc.assert(
      fc.property(nanos, amount => {
        expect(read(chargeText(usdOf(amount)))).toBe(amount)
        expect(exactUsd(usdOf(amount))).not.toContain('e')
      }),
      { numRuns: 2_000, examples: [[1n], [-1n], [123n]] },
    )
  })

  test('balances are never shown higher than they are, and less than a cent lower', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 10_000_000n, max: NANOS_MAX }), amount => {
        const difference = amount - read(balanceText(usdOf(amount)))
        expect(difference >= 0n && difference < 10_000_000n).toBe(true)
      }),
      { numRuns: 2_000, examples: [[10_000_000n], [1_999_999_999n], [290_000_000n]] },
    )
  })

  test('a balance and a sum of the same amount agree: neither is shown higher than it is', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 1_000_000_000n, max: NANOS_MAX }), amount => {
        expect(roundUsd(usdOf(amount))).toBe(balanceText(usdOf(amount)))
      }),
      {
        numRuns: 2_000,
        examples: [[29_995_000_000n], [29_999_999_999n], [8_999_999_290_000_000n - 999_999_000_000_000n]],
      },
    )
    expect(roundUsd(29.999999999999996)).toBe('30.00')
  })

  test('statements have a sign, and sums are exact', () => {
    fc.assert(
      fc.property(fc.array(fc.bigInt({ min: -(10n ** 14n), max: 10n ** 14n }), { maxLength: 20 }), amounts => {
        const sum = amounts.reduce((total, amount) => total + amount, 0n)
        expect(sumUsd(amounts.map(usdOf))).toBe(usdOf(sum))
        for (const amount of amounts) expect(read(signedUsd(usdOf(amount)))).toBe(amount)
      }),
    )
  })
})

test.each([
  [0, '0.00', '0.00'],
  [41.279, '41.27', '41.279'],
  [1234.5, '1,234.50', '1,234.50'],
  [0.0000169, '0.000016', '0.0000169'],
  [-0.0000169, '−0.000016', '−0.0000169'],
  [-1, '−1.00', '−1.00'],
  [1e-9, '0.000000001', '0.000000001'],
])('%d reads %s as a balance and %s as a charge', (usd, balance, charge) => {
  expect(balanceText(usd)).toBe(balance)
  expect(chargeText(usd)).toBe(charge)
})
