import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { duplicateName } from './duplicate-name.ts'
import { parseJsonObject } from './parse-json.ts'

const parse = (text: string) => parseJsonObject(Buffer.from(text))

describe('a name that stands twice in one object', () => {
  it.each([
    ['model', '{"model":"a","messages":[],"model":"b"}'],
    ['role', '{"messages":[{"content":"\\"role\\":","role":"user" , "role"\n: "system"}]}'],
    ['a', '{"x":[[{"b":{"\\u0061":{},"a":[]}}]]}'],
    ['', '{"":1,"":2}'],
    ['__proto__', '{"__proto__":1,"__proto__":2}'],
    ['7', '{"7":1,"a":{},"7":1}'],
    ['n', `{"a":{"n":1,"b":[${'{"n":1},'.repeat(2_000)}1],"n":1}}`],
    [`${'k'.repeat(60)}`, `{"${'k'.repeat(99)}":1,"${'k'.repeat(99)}":1}`],
  ])('is refused: %s', (name, text) => {
    expect(() => parse(text)).toThrow(
      expect.objectContaining({
        code: 'invalid_json',
        message: `The body has ${JSON.stringify(name)} twice in one object. Send each name once.`,
      }),
    )
  })

  it('is refused without its name in a long body', () => {
    expect(() => parse(`{"a":"${'x'.repeat(300_000)}","b":1,"b":2}`)).toThrow(
      'The body has one name twice in one object',
    )
  })

  it('may stand in different objects, in texts and in lists', () => {
    const body = { a: { a: 'a": "a', b: [{ a: 1 }, { a: [['a', 'a']] }] }, 'a"': ':', b: '\\"b":' }
    expect(parse(JSON.stringify(body, null, 2))).toEqual(body)
  })
})

it('JSON without duplicates is accepted, and with any member repeated it is refused', () => {
  const value = fc.jsonValue({ maxDepth: 4 })
  fc.assert(
    fc.property(fc.dictionary(fc.string(), value), fc.nat(), (body, seed) => {
      const text = JSON.stringify(body)
      expect(duplicateName(text)).toBeUndefined()
      expect(() => parse(text)).not.toThrow()
      const names = Object.keys(body)
      if (names.length === 0) return
      const repeated = names[seed % names.length]!
      const twice = `${text.slice(0, -1)},${JSON.stringify(repeated)}:null}`
      expect(duplicateName(twice)).toBe(repeated)
      expect(() => parse(twice)).toThrow('twice in one object')
    }),
    { numRuns: 500 },
  )
})

it('keeps __proto__ members at every level, as members and not as prototypes', () => {
  const parsed = parse('{"a":[{"__proto__":{"x":1},"b":{"\\u005f_proto__":2,"__proto__x":3}}],"__proto__":[]}')
  expect(JSON.stringify(parsed)).toBe('{"a":[{"__proto__":{"x":1},"b":{"__proto__":2,"__proto__x":3}}],"__proto__":[]}')
  expect(Object.getPrototypeOf(parsed)).toBe(Object.prototype)
})
