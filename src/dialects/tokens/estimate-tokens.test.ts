import { expect, test } from 'vitest'
import { countTokens } from './count-tokens.ts'
import { estimateTokens } from './estimate-tokens.ts'

const sentence =
  'The signalman looks at the river, which is six minutes late; the timetable of 1894 does not mention it. '

test('counts a text of ordinary length exactly', () => {
  expect(estimateTokens(sentence.repeat(50))).toBe(countTokens(sentence.repeat(50)))
  expect(estimateTokens('')).toBe(0)
})

test('estimates a long text within 2%, even if its halves differ', () => {
  const prose = sentence.repeat(2_000)
  const mixed = prose + '列車は駅に着いた。'.repeat(20_000)
  for (const text of [prose, mixed]) {
    const exact = countTokens(text)
    expect(Math.abs(estimateTokens(text) - exact) / exact).toBeLessThan(0.02)
  }
})
