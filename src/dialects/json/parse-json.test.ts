import { describe, expect, it } from 'vitest'
import { parseJsonObject, parseUpstreamJson, tallyFor } from './parse-json.ts'

const malformed = expect.objectContaining({ outcome: 'malformed' })
const padding = `"${'x'.repeat(5_000)}"`

describe('parseUpstreamJson', () => {
  it('parses 64 levels and refuses 65', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${padding}${']'.repeat(depth)}`
    expect(parseUpstreamJson(nested(64))).toEqual(JSON.parse(nested(64)))
    expect(() => parseUpstreamJson(nested(65))).toThrow(malformed)
    expect(() => parseUpstreamJson(`${'{"0":'.repeat(65)}${padding}${'}'.repeat(65)}`)).toThrow(malformed)
  })

  it('refuses more delimiters than an answer has', () => {
    const objects = (count: number) => `[${'{},'.repeat(count)}{}]`
    expect(parseUpstreamJson(objects(10_000))).toHaveLength(10_001)
    expect(() => parseUpstreamJson(objects(66_000))).toThrow(malformed)
    // Log probabilities need more.
    expect(parseUpstreamJson(objects(66_000), tallyFor(200_000))).toHaveLength(66_001)
  })

  it('ignores delimiters in strings', () => {
    const text = JSON.stringify({ a: '[{"\\'.repeat(2_000), b: '\\"' })
    expect(parseUpstreamJson(text)).toEqual(JSON.parse(text))
  })

  it('skips one byte order mark', () => {
    expect(parseUpstreamJson('\ufeff{"a":1}')).toEqual({ a: 1 })
    expect(() => parseUpstreamJson('\ufeff\ufeff{}')).toThrow(SyntaxError)
  })

  it.each(['', '\ufeff', '{', `[${padding}`, `"${'x'.repeat(5_000)}`, `${']'.repeat(5_000)}`])(
    'throws SyntaxError for %.20s',
    text => {
      expect(() => parseUpstreamJson(text)).toThrow(SyntaxError)
    },
  )
})

it('stops reading a body that is too deep', () => {
  let reads = 0
  const body = new Proxy(Buffer.alloc(1_000_000, '['), {
    get(bytes, key) {
      reads++
      return Reflect.get(bytes, key)
    },
  })
  expect(() => parseJsonObject(body)).toThrow('The body is nested deeper than 64 levels.')
  expect(reads).toBeLessThan(1_000)
})
