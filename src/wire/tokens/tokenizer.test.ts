import { encode } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, test } from 'vitest'
import { SLICE_UNITS, sliceText, tokenizer } from './tokenizer.ts'

test('encodes like gpt-tokenizer, and the bytes of the tokens are those of the text', () => {
  const text = "Hello, wörld! It's 12345 — 漢字かな 👩‍👩‍👧 ไทย\r\n\tend"
  const tokens = tokenizer().encode(text)
  expect(tokens.map(({ rank }) => rank)).toEqual(encode(text))
  expect(Buffer.concat(tokens.map(({ bytes }) => bytes)).toString()).toBe(text)
})

test('refuses a text that is longer than a slice', () => {
  expect(() => tokenizer().encode('a'.repeat(SLICE_UNITS + 1))).toThrow('A slice has at most 512 UTF-16 units.')
})

describe('sliceText', () => {
  const texts = ['', 'short', 'a'.repeat(2_000), '👩'.repeat(2_000), `x${'👩'.repeat(2_000)}`, 'two words '.repeat(400)]

  test('keeps all text, stays within the limit and never splits surrogate pairs', () => {
    for (const text of texts) {
      const slices = [...sliceText(text)]
      expect(slices.join('')).toBe(text)
      for (const slice of slices) {
        expect(slice.length).toBeLessThanOrEqual(SLICE_UNITS)
        expect(slice.isWellFormed()).toBe(true)
      }
    }
  })

  test('cuts before a space between two words', () => {
    const [first, second] = sliceText(`${'a'.repeat(500)} ${'b'.repeat(500)}`)
    expect(first).toBe('a'.repeat(500))
    expect(second).toBe(` ${'b'.repeat(500)}`)
  })
})

test('words of any language are drawn', () => {
  let state = 0
  const words = tokenizer().drawWords(200, () => (state = (state + 0.618_033_988) % 1))
  expect(words).toHaveLength(200)
  for (const word of words) expect(word).toMatch(/^\p{L}{4,}$/u)
  expect(new Set(words).size).toBeGreaterThan(150)
  expect(words.some(word => /^[a-z]+$/.test(word))).toBe(true)
  expect(words.some(word => /[^\p{ASCII}]/u.test(word))).toBe(true)
})
