import { countTokens as countWhole } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, test } from 'vitest'
import { countTokens, sliceUnits, tokenizerSlices } from './count-tokens.ts'

describe('countTokens', () => {
  test('equals the tokenizer on short text', () => {
    for (const text of [
      '',
      'hello',
      'Hello, world! 1234567',
      'naïve café',
      '漢字かな',
      '👩‍👩‍👧 family',
      'a\r\n\r\nb\t c',
    ]) {
      expect(countTokens(text)).toBe(countWhole(text))
    }
  })

  test('is exact on long text with spaces', () => {
    const prose = 'The signalman, No. 42, looks at the clock (again) -- and it reads 12:05!\n\n'.repeat(300)
    expect(countTokens(prose)).toBe(countWhole(prose))
  })

  test('stays fast on runs that take an unsliced tokenizer seconds', () => {
    expect(countTokens('a'.repeat(200_000))).toBeGreaterThanOrEqual(25_000)
    expect(countTokens('a'.repeat(200_000))).toBeLessThan(25_000 * 1.02)
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
    expect(count).toBeLessThan(100 + sliceUnits)
    expect(countTokens('one two', 100)).toBe(2)
  })
})

describe('tokenizerSlices', () => {
  const texts = ['', 'short', 'a'.repeat(2_000), '👩'.repeat(2_000), `x${'👩'.repeat(2_000)}`, 'two words '.repeat(400)]

  test('keeps all text, stays within the limit and never splits surrogate pairs', () => {
    for (const text of texts) {
      const slices = [...tokenizerSlices(text)]
      expect(slices.join('')).toBe(text)
      for (const slice of slices) {
        expect(slice.length).toBeLessThanOrEqual(sliceUnits)
        expect(slice.isWellFormed()).toBe(true)
      }
    }
  })

  test('cuts before a space between two words', () => {
    const [first, second] = tokenizerSlices(`${'a'.repeat(500)} ${'b'.repeat(500)}`)
    expect(first).toBe('a'.repeat(500))
    expect(second).toBe(` ${'b'.repeat(500)}`)
  })
})
