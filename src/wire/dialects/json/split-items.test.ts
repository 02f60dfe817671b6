import fc from 'fast-check'
import { expect, it } from 'vitest'
import { splitItems } from './split-items.ts'

const limits = { delimiters: 1_000, items: 100, itemUnits: 10_000, restUnits: 10_000 }

/** Returns the value of a text that was parsed in pieces; undefined if it is invalid or has no such list. */
async function parsedInPieces(text: string): Promise<unknown> {
  try {
    const { rest, items } = await splitItems(text, 'data', limits)
    const value = JSON.parse(rest)
    if (value.data.length > 0) return undefined
    return { ...value, data: items.map(([start, end]) => JSON.parse(text.slice(start, end))) }
  } catch {
    return undefined
  }
}

function parsedAtOnce(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

it('gives the value of the whole text, and nothing for a text that is not JSON', async () => {
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('data', '"data":[', '\\\\', '\\"', ']', '}', ','),
  )
  const object = fc.record({ before: value, data: fc.array(value, { maxLength: 5 }), after: value })
  const change = fc.record({
    at: fc.nat(200),
    cut: fc.nat(2),
    put: fc.constantFrom('', ' ', '\n', ',', ']', '}', '[', '{', '"', '\\', ':', '1'),
  })
  let valid = 0
  const property = fc.asyncProperty(
    object,
    fc.boolean(),
    fc.oneof({ weight: 1, arbitrary: fc.constant([]) }, fc.array(change, { maxLength: 2 })),
    async (whole, spaced, changes) => {
      let text = JSON.stringify(whole, null, spaced ? 1 : 0)
      for (const { at, cut, put } of changes) text = text.slice(0, at) + put + text.slice(at + cut)
      const pieces = await parsedInPieces(text)
      const expected = parsedAtOnce(text)
      if (changes.length === 0) expect(pieces).toEqual(expected)
      if (pieces === undefined) return
      valid++
      expect(pieces).toEqual(expected)
    },
  )
  await fc.assert(property, { numRuns: 3_000 })
  expect(valid).toBeGreaterThan(1_000)
})

it('gives other work a turn for each megabyte', async () => {
  let turns = 0
  let isDone = false
  const count = () => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  const text = `{"data":[${`${' '.repeat(99_999)}1,`.repeat(80)}1]}`
  const { items } = await splitItems(text, 'data', { ...limits, itemUnits: 100_000 })
  isDone = true
  expect(items).toHaveLength(81)
  expect(turns).toBeGreaterThanOrEqual(7)
})
