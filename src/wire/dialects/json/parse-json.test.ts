import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
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

describe('a long body', () => {
  it.each([
    ['a text without its end', `{"model":"${'x'.repeat(100_000)}`],
    ['a text that ends in a backslash', `{"model":"${'x'.repeat(100_000)}\\"}`],
    ['an object without its end', `{"model":"${'x'.repeat(100_000)}"`],
    ['white space', ' '.repeat(100_000)],
    ['prose', 'word '.repeat(20_000)],
    ['a list', `["${'x'.repeat(100_000)}"]`],
  ])('that is %s is refused without parsing', (_what, text) => {
    const parsing = vi.spyOn(JSON, 'parse')
    expect(() => parseJsonObject(Buffer.from(text))).toThrow('The body is not one complete JSON object.')
    expect(parsing).not.toHaveBeenCalled()
    parsing.mockRestore()
  })

  it('may begin with a byte order mark and white space', () => {
    expect(parseJsonObject(Buffer.from(`\ufeff\n\t {"a":"${'x'.repeat(100_000)}"}\n`))).toHaveProperty('a')
  })

  it('has at most 16,384 different names', () => {
    const withNames = (names: number) => {
      const items = Array.from({ length: 16_400 }, (_, at) => ({ [`name-${at % names}`]: at }))
      return Buffer.from(JSON.stringify({ items }))
    }
    expect(parseJsonObject(withNames(16_383))).toHaveProperty('items')
    expect(() => parseJsonObject(withNames(16_384))).toThrow('The body has more than 16384 different field names.')
  })
})

it('finds the end of every string', () => {
  const part = fc.oneof(
    fc.constantFrom('"', '\\', 'x'.repeat(63), 'x'.repeat(64), 'x'.repeat(65), '{', ':', ','),
    fc.string(),
  )
  const text = fc.array(part, { maxLength: 30 }).map(parts => parts.join(''))
  fc.assert(
    fc.property(fc.dictionary(text, text), body => {
      expect(parseJsonObject(Buffer.from(JSON.stringify(body)))).toEqual(
        JSON.parse(JSON.stringify({ ...body, __proto__: undefined })),
      )
    }),
  )
})

it('stops reading a body that is too deep', () => {
  let reads = 0
  const body = new Proxy(Buffer.concat([Buffer.from('{"a":'), Buffer.alloc(1_000_000, '[')]), {
    get(bytes, key) {
      reads++
      return Reflect.get(bytes, key)
    },
  })
  expect(() => parseJsonObject(body)).toThrow('The body is nested deeper than 64 levels.')
  expect(reads).toBeLessThan(1_000)
})
