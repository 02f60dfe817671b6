import { describe, expect, test } from 'vitest'
import { sampleToken } from './sample-token.ts'
import { seededRandom } from './seeded-random.ts'

const candidates = [
  { token: 1, probability: 0.6 },
  { token: 2, probability: 0.3 },
  { token: 3, probability: 0.1 },
]

function shareOf(token: number, temperature: number, topP = 1): number {
  const random = seededRandom(42)
  let hits = 0
  for (let draw = 0; draw < 5_000; draw += 1) {
    if (sampleToken(candidates, { temperature, topP }, random).token === token) hits += 1
  }
  return hits / 5_000
}

describe('sampleToken', () => {
  test('temperature 0 takes the most probable token without drawing', () => {
    const noDraw = () => {
      throw new Error('drew')
    }
    expect(sampleToken(candidates, { temperature: 0, topP: 1 }, noDraw).token).toBe(1)
  })

  test('temperature 1 follows the probabilities', () => {
    expect(shareOf(1, 1)).toBeCloseTo(0.6, 1)
    expect(shareOf(3, 1)).toBeCloseTo(0.1, 1)
  })

  test('a higher temperature flattens, a lower one sharpens', () => {
    expect(shareOf(3, 2)).toBeGreaterThan(shareOf(3, 1))
    expect(shareOf(1, 0.3)).toBeGreaterThan(shareOf(1, 1))
    expect(shareOf(1, 0.0001)).toBe(1)
  })

  test('topP excludes the tail', () => {
    expect(shareOf(3, 1, 0.85)).toBe(0)
    expect(shareOf(1, 1, 0)).toBe(1)
  })

  test('a draw at the upper end stays inside', () => {
    expect(sampleToken(candidates, { temperature: 1, topP: 1 }, () => 1 - 2 ** -53).token).toBe(3)
  })
})
