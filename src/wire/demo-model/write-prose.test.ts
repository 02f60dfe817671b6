import { describe, expect, test } from 'vitest'
import { loadDemoLanguage, type Piece } from './demo-language.ts'
import { seededRandom } from './seeded-random.ts'
import { writeProse } from './write-prose.ts'

const language = loadDemoLanguage()
const write = (seed: number, temperature = 1): Piece[] => [
  ...writeProse(language, { temperature, topP: 1 }, seededRandom(seed)),
]
const textOf = (pieces: Piece[]) => pieces.map(piece => piece.text).join('')
const seeds = Array.from({ length: 60 }, (_, index) => index)

describe('writeProse', () => {
  test('writes complete sentences of a natural length at any temperature', () => {
    for (const temperature of [0, 0.2, 1, 2]) {
      for (const seed of seeds) {
        const pieces = write(seed, temperature)
        expect(pieces.length).toBeGreaterThanOrEqual(40)
        expect(pieces.length).toBeLessThanOrEqual(160)
        expect(textOf(pieces)).toMatch(/^ [A-Z].*\.$/)
      }
    }
  })

  test('writes the same text for the same numbers and another for others', () => {
    expect(textOf(write(3))).toBe(textOf(write(3)))
    expect(new Set(seeds.map(seed => textOf(write(seed)))).size).toBeGreaterThan(55)
  })

  test('does not loop at temperature 0', () => {
    for (const seed of seeds) {
      const tokens = write(seed, 0).map(piece => piece.token)
      const runs = tokens.slice(11).map((_, at) => tokens.slice(at, at + 12).join(' '))
      expect(new Set(runs).size).toBe(runs.length)
    }
  })

  test('reports the probability of each token', () => {
    for (const piece of write(5)) {
      const listed = piece.candidates.find(candidate => candidate.token === piece.token)
      expect(piece.probability).toBe(listed?.probability)
      expect(piece.probability).toBeGreaterThan(0)
      expect(piece.candidates.reduce((sum, candidate) => sum + candidate.probability, 0)).toBeCloseTo(1, 9)
    }
  })
})
