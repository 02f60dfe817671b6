import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countTokens } from './count-tokens.ts'
import { measureText, TextMeasure } from './measure-text.ts'

describe('the bound of a text', () => {
  const boundOf = (text: string) => measureText(text).tokensBound / measureText(text).tokens

  test('English and code have at most half more than their count', () => {
    expect(boundOf('The signalman looks at the river, which is late; nobody mentions it. '.repeat(50))).toBeLessThan(
      1.3,
    )
    expect(boundOf('for (const [name, value] of entries) {\n  add(name, value)\n}\n'.repeat(50))).toBeLessThan(1.5)
  })

  // The tokens that these vocabularies need, measured with their tokenizers.
  test.each([
    ['digits, one token each for Qwen 3', '3141592653589793238462643383279', 31],
    ['line breaks, one token each for Llama 2', '\n'.repeat(100), 100],
    ['blanks, runs of 16 for Llama 2', ' '.repeat(4_000), 251],
    ['dashes, runs of 16 for Gemma 3', '='.repeat(3_000), 190],
    [
      'German, for Llama 3.1',
      'Die Verarbeitung natürlicher Sprache ist ein Teilgebiet der Informatik. '.repeat(10),
      160,
    ],
    ['Tamil, for Llama 3.1', 'இயற்கை மொழி முறையாக்கம் என்பது கணினிக்கும் மனித மொழிகளுக்கும் '.repeat(6), 570],
  ])('covers %s', (_name, text, tokens) => {
    expect(measureText(text).tokensBound).toBeGreaterThanOrEqual(tokens)
  })

  test('is never below the count, nor above the bytes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), text => {
        const { tokens, tokensBound } = measureText(text)
        expect(tokens).toBe(countTokens(text))
        expect(tokensBound).toBeGreaterThanOrEqual(tokens)
        expect(tokensBound).toBeLessThanOrEqual(Buffer.byteLength(text))
      }),
    )
  })
})

test('a text is measured in turns of a few slices', () => {
  const text = 'one two three '.repeat(300)
  const measure = new TextMeasure(text)
  let turns = 1
  let length = measure.advance(2)
  for (; length === null; turns++) length = measure.advance(2)
  expect(turns).toBeGreaterThan(3)
  expect(length).toEqual(measureText(text))
})
