import { describe, expect, test } from 'vitest'
import { loadDemoLanguage, sampleToken, textPieces, writeProse } from './demo-language.ts'
import { seededRandom } from './seeded-random.ts'

const language = loadDemoLanguage()
const write = (seed: number, temperature = 1) => [...writeProse(language, { temperature, topP: 1 }, seededRandom(seed))]
const textOf = (pieces: ReturnType<typeof write>) => pieces.map(piece => piece.text).join('')
const seeds = Array.from({ length: 30 }, (_, index) => index)

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
    expect(new Set(seeds.map(seed => textOf(write(seed)))).size).toBeGreaterThan(25)
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

test('sampleToken follows the probabilities, flattened or sharpened by the temperature, and top_p excludes the tail', () => {
  const candidates = [0.6, 0.3, 0.1].map((probability, token) => ({ token, probability }))
  function shareOf(token: number, temperature: number, topP = 1): number {
    const random = seededRandom(42)
    const draws = Array.from({ length: 5_000 }, () => sampleToken(candidates, { temperature, topP }, random).token)
    return draws.filter(each => each === token).length / 5_000
  }
  expect(shareOf(0, 1)).toBeCloseTo(0.6, 1)
  expect(shareOf(2, 1)).toBeCloseTo(0.1, 1)
  expect(shareOf(2, 2)).toBeGreaterThan(shareOf(2, 1))
  expect(shareOf(0, 0.0001)).toBe(1)
  expect(shareOf(0, 0)).toBe(1)
  expect(shareOf(2, 1, 0.85)).toBe(0)
  expect(shareOf(0, 1, 0)).toBe(1)
})

test('textPieces keeps characters complete when two texts are read in turns', () => {
  const [one, other] = ['🚂'.repeat(3), 'ꙮ'.repeat(3)].map(text => textPieces(text))
  let [first, second] = ['', '']
  for (let left = true; left; ) {
    const [a, b] = [one!.next(), other!.next()]
    first += a.value?.text ?? ''
    second += b.value?.text ?? ''
    left = !(a.done && b.done)
  }
  expect([first, second]).toEqual(['🚂'.repeat(3), 'ꙮ'.repeat(3)])
})
