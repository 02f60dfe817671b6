import fc from 'fast-check'
import { expect, test } from 'vitest'
import { believedTokens, RATIO_MAX, RATIO_MIN } from './meter-ratio.ts'

const tokens = fc.integer({ min: 0, max: 2_000_000 })
const ratio = fc.double({ min: RATIO_MIN, max: RATIO_MAX, noNaN: true })

test('a report is never billed above itself, nor above the expected tokens and the slack', () => {
  fc.assert(
    fc.property(tokens, tokens, ratio, (reported, counted, of) => {
      const { tokens: billed } = believedTokens(reported, counted, of)
      expect(billed).toBeLessThanOrEqual(reported)
      expect(billed).toBeLessThanOrEqual(counted * of * 1.05 + 8)
    }),
  )
})

test('a hoster that reports more is never paid less than one that reports what is expected', () => {
  fc.assert(
    fc.property(tokens, ratio, tokens, (counted, of, more) => {
      const expected = Math.ceil(counted * of)
      expect(believedTokens(expected + more, counted, of).tokens).toBeGreaterThanOrEqual(expected)
    }),
  )
})

test('reports beyond the band earn nothing more', () => {
  fc.assert(
    fc.property(tokens, ratio, tokens, (counted, of, more) => {
      const beyond = Math.floor(counted * of * 1.05 + 8) + 1 + more
      expect(believedTokens(beyond, counted, of)).toEqual({
        tokens: Math.min(beyond, Math.ceil(counted * of)),
        isOverReport: true,
      })
    }),
  )
})
