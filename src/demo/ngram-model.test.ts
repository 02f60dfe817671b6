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

  test('ranks what followed more often first', () => {
    expect(model.after([stop, the]).map(candidate => candidate.token)).toEqual([train, yard])
  })

  test('a pair gives the discounted share to what only its last token was followed by', () => {
    const afterYardWaits = model.after([yard, waits])
    expect(afterYardWaits).toEqual([{ token: stop, probability: 1 }])
    const afterTheTrain = model.after([the, train])
    expect(afterTheTrain.map(candidate => candidate.token).sort()).toEqual([waits, stop])
  })

  test('counts the ring: the last token is followed by the first', () => {
    expect(model.after([train, stop])[0]?.token).toBe(the)
  })

  test('an unseen pair uses its last token, an unseen token plain frequencies', () => {
    expect(model.after([yard, the])).toEqual(model.after([the]))
    expect(model.after([12345])[0]?.token).toBe(the)
  })

  test('refuses a corpus without a context', () => {
    expect(() => trainNgram([1, 2])).toThrow(RangeError)
  })
})
