import { expect, test } from 'vitest'
import { countTokens } from './count-tokens.ts'
import { estimateTokens, SHORT_TEXT_UNITS } from './estimate-tokens.ts'

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
