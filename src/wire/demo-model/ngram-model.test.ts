import { describe, expect, test } from 'vitest'
import { trainNgram } from './ngram-model.ts'

const the = 1
const train = 2
const yard = 3
const waits = 4
const stop = 5
const model = trainNgram([the, train, waits, stop, the, yard, waits, stop, the, train, stop])

describe('trainNgram', () => {
  test('gives probabilities that sum to one for every kind of context', () => {
    for (const before of [[], [the], [stop, the], [yard, yard], [999], [waits, 999], [train, waits, stop]]) {
      const total = model.after(before).reduce((sum, candidate) => sum + candidate.probability, 0)
      expect(total).toBeCloseTo(1, 12)
    }
  })

  test('ranks the more frequent successor first', () => {
    expect(model.after([stop, the]).map(candidate => candidate.token)).toEqual([train, yard])
  })

  test('gives the discounted share of a pair to successors of its last token', () => {
    const afterYardWaits = model.after([yard, waits])
    expect(afterYardWaits).toEqual([{ token: stop, probability: 1 }])
    const afterTheTrain = model.after([the, train])
    expect(afterTheTrain.map(candidate => candidate.token).sort()).toEqual([waits, stop])
  })

  test('treats the sequence as a ring: the first token follows the last', () => {
    expect(model.after([train, stop])[0]?.token).toBe(the)
  })

  test('uses the last token for an unknown pair, and plain frequencies for an unknown token', () => {
    expect(model.after([yard, the])).toEqual(model.after([the]))
    expect(model.after([12345])[0]?.token).toBe(the)
  })

  test('refuses a corpus of fewer than three tokens', () => {
    expect(() => trainNgram([1, 2])).toThrow(RangeError)
  })
})
