import { expect, test } from 'vitest'
import { z } from 'zod'
import { jsonBySchema } from './json-by-schema.ts'

const make = (schema: unknown) => jsonBySchema(schema, () => 'The train waits.')

test('satisfies the schema zod makes for a nested object', () => {
  const shape = z.strictObject({
    title: z.string(),
    stops: z.array(z.object({ name: z.string(), minute: z.int().min(10).max(59) })).min(3),
    kind: z.enum(['goods', 'passenger']),
    late: z.boolean(),
    speed: z.number().max(2.5),
    note: z.string().nullable(),
    driver: z.string().optional(),
    type: z.literal('train'),
  })
  shape.parse(make(z.toJSONSchema(shape)))
})

test('fills required names that are not declared, and follows anyOf and local references', () => {
  expect(make({ properties: { city: { type: 'string' } }, required: ['unit'] })).toEqual({
    city: 'The train waits.',
    unit: 'The train waits.',
  })
  expect(make({ anyOf: [{ type: 'boolean' }, { type: 'string' }] })).toBe(true)
  expect(make({ $ref: '#/$defs/stop', $defs: { stop: { type: ['null', 'boolean'] } } })).toBe(true)
})

test('ends on schemas that refer to themselves or demand huge values', () => {
  make({ $ref: '#' })
  make({ anyOf: [{ $ref: '#' }] })
  const bush = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`m${index}`, { $ref: '#' }]))
  const grown = make({ type: 'object', properties: bush, required: Object.keys(bush) })
  expect(JSON.stringify(grown).length).toBeLessThan(20_000)
  expect(make({ type: 'array', items: { type: 'boolean' }, minItems: 1e9 })).toHaveLength(64)
  const sign = 'signal box '.repeat(80_000)
  const repeated = make({ type: 'array', minItems: 64, items: { enum: [sign] } })
  expect(JSON.stringify(repeated).length).toBeLessThan(2 * sign.length)
})

test('does not read a large schema again for each value', () => {
  const names = Array.from({ length: 10_000 }, (_, index) => `m${index}`)
  let reads = 0
  const properties = new Proxy(Object.fromEntries(names.map(name => [name, {}])), {
    ownKeys(target) {
      reads++
      return Reflect.ownKeys(target)
    },
  })
  make({ type: 'array', minItems: 64, items: { type: 'array', minItems: 64, items: { type: 'object', properties } } })
  expect(reads).toBeLessThan(30)
})

test('returns a value for invalid schemas', () => {
  for (const schema of [null, true, 7, 'object', [], { type: 5 }, { properties: 3 }, { enum: [] }, { required: 'x' }]) {
    expect(() => JSON.stringify(make(schema))).not.toThrow()
  }
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"boolean"}}}')
  expect(JSON.stringify(make(schema))).toBe('{"__proto__":true}')
})
