import * as fc from 'fast-check'
import { countTokens as countWhole } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, test } from 'vitest'
import { countTokens, estimateTokens, SHORT_TEXT_UNITS } from './count-tokens.ts'
import { SLICE_UNITS } from './tokenizer.ts'

const asText = { disallowedSpecial: new Set<string>() }

describe('countTokens', () => {
  test('equals gpt-tokenizer on any short text', () => {
    const unit = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.string({ unit: fc.integer({ max: 0xffff }).map(code => String.fromCharCode(code)), maxLength: 20 }),
      fc.constantFrom(
        ' ',
        '\n',
        '\r\n\t',
        "it's",
        'WORDS',
        '1234567',
        '====',
        'ไทย',
        '漢字かな',
        '👩‍👩‍👧',
        '<|endoftext|>',
      ),
    )
    // gpt-tokenizer splits a byte order mark, which is a token of its own: its decoder drops the mark.
    const withoutMark = (text: string) => text.replaceAll('\ufeff', '')
    const text = fc.array(unit, { maxLength: 8 }).map(parts => withoutMark(parts.join('')).slice(0, SLICE_UNITS))
    fc.assert(
      fc.property(text, text => {
        expect(countTokens(text)).toBe(countWhole(text, asText))
      }),
      { numRuns: 2_000 },
    )
  })

  test('is exact on long text with spaces', () => {
    const prose = 'The signalman, No. 42, looks at the clock (again) -- and it reads 12:05!\n\n'.repeat(300)
    expect(countTokens(prose)).toBe(countWhole(prose))
  })

  test('is less than 1% above the exact count on long runs', () => {
    expect(countTokens('a'.repeat(200_000))).toBeGreaterThanOrEqual(25_000)
    expect(countTokens('a'.repeat(200_000))).toBeLessThan(25_000 * 1.01)
    expect(countTokens(' '.repeat(50_000))).toBeGreaterThan(300)
    expect(countTokens(' '.repeat(50_000))).toBeLessThan(1_000)
    expect(countTokens('漢'.repeat(50_000))).toBeGreaterThan(10_000)
    expect(countTokens('👩‍👩‍👧'.repeat(5_000))).toBeGreaterThan(5_000)
  })

  test('counts special tokens as text', () => {
    expect(countTokens('<|endoftext|>')).toBeGreaterThan(1)
    expect(countTokens(`${'word '.repeat(500)}<|endoftext|><|im_start|>`)).toBeGreaterThan(500)
  })

  test('accepts lone surrogates', () => {
    expect(countTokens('\ud83d')).toBeGreaterThan(0)
    expect(countTokens('\udc69'.repeat(3_000))).toBeGreaterThan(0)
  })

  test('stops early above the given count', () => {
    const text = 'switchyard '.repeat(10_000)
    const count = countTokens(text, 100)
    expect(count).toBeGreaterThan(100)
    expect(count).toBeLessThan(100 + SLICE_UNITS)
    expect(countTokens('one two', 100)).toBe(2)
  })
})

const sentence =
  'The signalman looks at the river, which is six minutes late; the timetable of 1894 does not mention it. '

test('counts a short text exactly', () => {
  const longest = sentence.repeat(50).slice(0, SHORT_TEXT_UNITS)
  expect(estimateTokens(longest)).toBe(countTokens(longest))
  expect(estimateTokens('')).toBe(0)
})

test('estimates a long text within 10%, even if its halves differ', () => {
  const prose = sentence.repeat(2_000)
  const mixed = prose + '列車は駅に着いた。'.repeat(20_000)
  for (const text of [prose, mixed]) {
    const exact = countTokens(text)
    expect(Math.abs(estimateTokens(text) - exact) / exact).toBeLessThan(0.1)
  }
})

test('text that counts little at fixed places does not hide the rest', () => {
  const parts = Array.from({ length: 32 }, () => ' '.repeat(200) + '漢字'.repeat(1_900))
  const text = parts.join('')
  expect(estimateTokens(text)).toBeGreaterThan(countTokens(text) * 0.6)
})
