import fc from 'fast-check'
import { expect, test } from 'vitest'
import { learnRatio, type MeterSource } from './learn-ratio.ts'

const source = (ratio: number, isLocal = false, reports = 64, voter?: string): MeterSource => {
  const values = Array.from({ length: reports }, (_, at) => Math.log(ratio) + ((at % 9) - 4) / 100)
  return { isLocal, input: values, output: values, ...(voter && { voter }) }
}

test.each<[string, MeterSource[], number]>([
  ['nothing known', [], 1],
  ['one hoster', [source(1.4)], 1],
  ['two hosters: no one knows which lies', [source(1.2), source(1.4)], 1],
  ['the majority of three hosters', [source(1.2), source(1.2), source(1.5)], 1.2],
  ['a local server decides alone', [source(1.1, true), source(1.4), source(1.4), source(1.4)], 1.1],
  [
    'three endpoints of one hoster, or of related ones, have one vote',
    [...[1.4, 1.4, 1.4].map(ratio => source(ratio, false, 64, 'a')), source(1.1, false, 64, 'b'), source(1.1)],
    1.1,
  ],
  ['and are not three hosters', [1.4, 1.4, 1.4].map(ratio => source(ratio, false, 64, 'a')), 1],
  ['too few reports do not count', [source(1.2), source(1.2), source(1.2, false, 10)], 1],
  ['at most 1.5', [source(1.9), source(1.9), source(1.9)], 1.5],
  ['at least 0.7', [source(0.4), source(0.4), source(0.4)], 0.7],
])('%s', (_name, sources, expected) => {
  const { input, output, isLearned } = learnRatio(sources)
  expect([input, output]).toEqual([expect.closeTo(expected, 3), expect.closeTo(expected, 3)])
  expect(isLearned).toBe(expected !== 1)
})

test('one hoster cannot move the ratio beyond those of the honest ones, whatever it reports', () => {
  const honest = fc.array(fc.double({ min: 1, max: 1.2, noNaN: true }), { minLength: 2, maxLength: 7 })
  fc.assert(
    fc.property(honest, fc.double({ min: 0.01, max: 100, noNaN: true }), (ratios, lie) => {
      const { input, isLearned } = learnRatio([source(lie), ...ratios.map(ratio => source(ratio))])
      expect(isLearned).toBe(true)
      expect(input).toBeGreaterThanOrEqual(Math.min(...ratios) - 1e-9)
      expect(input).toBeLessThanOrEqual(Math.max(...ratios) + 1e-9)
    }),
  )
})
