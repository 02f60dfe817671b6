import { describe, expect, it } from 'vitest'
import { parseUpstreamJson } from './parse-upstream-json.ts'

const malformed = expect.objectContaining({ outcome: 'malformed' })
const padding = `"${'x'.repeat(5_000)}"`

describe('parseUpstreamJson', () => {
  it('reads what is nested 64 levels deep, and refuses one more', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${padding}${']'.repeat(depth)}`
    expect(parseUpstreamJson(nested(64))).toEqual(JSON.parse(nested(64)))
    expect(() => parseUpstreamJson(nested(65))).toThrow(malformed)
    expect(() => parseUpstreamJson(`${'{"0":'.repeat(65)}${padding}${'}'.repeat(65)}`)).toThrow(malformed)
  })

  it('refuses more signs than an answer has', () => {
    const objects = (count: number) => `[${'{},'.repeat(count)}{}]`
    expect(parseUpstreamJson(objects(10_000))).toHaveLength(10_001)
    expect(() => parseUpstreamJson(objects(2_100_000))).toThrow(malformed)
  })

  it('takes what is in strings for text', () => {
    const text = JSON.stringify({ a: '[{"\\'.repeat(2_000), b: '\\"' })
    expect(parseUpstreamJson(text)).toEqual(JSON.parse(text))
  })

  it('overlooks a byte order mark, and only one', () => {
    expect(parseUpstreamJson('\ufeff{"a":1}')).toEqual({ a: 1 })
    expect(() => parseUpstreamJson('\ufeff\ufeff{}')).toThrow(SyntaxError)
  })

  it.each(['', '\ufeff', '{', `[${padding}`, `"${'x'.repeat(5_000)}`, `${']'.repeat(5_000)}`])(
    'throws SyntaxError at %.20s',
    text => {
      expect(() => parseUpstreamJson(text)).toThrow(SyntaxError)
    },
  )
})
