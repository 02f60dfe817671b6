import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { schemaInstance } from './schema-instance.ts'

const make = (schema: unknown) => schemaInstance(schema, () => 'The train waits.')

describe('schemaInstance', () => {
  test('satisfies the schema zod makes for a nested object', () => {
    const shape = z.strictObject({
      title: z.string().min(20).max(24),
      stops: z.array(z.object({ name: z.string().max(5), minute: z.int().min(10).max(59) })).min(3),
      kind: z.enum(['goods', 'passenger']),
      late: z.boolean(),
      speed: z.number().gt(0).lt(1),
      reply: z.email(),
      at: z.iso.datetime(),
      note: z.string().nullable(),
      driver: z.string().optional(),
    })
    shape.parse(make(z.toJSONSchema(shape)))
  })

  test('fills every required name, declared or not', () => {
    expect(make({ type: 'object', properties: { city: { type: 'string' } }, required: ['city', 'unit'] })).toEqual({
      city: 'The train waits.',
      unit: 'The train waits.',
    })
  })

  test('respects number bounds', () => {
    for (const [rules, valid] of [
      [{ type: 'integer', minimum: 7 }, (n: number) => n >= 7],
      [{ type: 'integer', maximum: -3 }, (n: number) => n <= -3],
      [{ type: 'integer', exclusiveMinimum: 4, exclusiveMaximum: 6 }, (n: number) => n === 5],
      [{ type: 'integer', minimum: 6.5 }, (n: number) => Number.isInteger(n) && n >= 7],
      [{ type: 'integer', minimum: 3, maximum: 3 }, (n: number) => n === 3],
      [{ type: 'integer', exclusiveMaximum: 2.5 }, (n: number) => Number.isInteger(n) && n < 2.5],
      [{ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 0.5 }, (n: number) => n > 0 && n < 0.5],
      [{ type: 'number', maximum: 2.5 }, (n: number) => n <= 2.5],
    ] as const) {
      expect(make(rules), JSON.stringify(rules)).toSatisfy(valid)
    }
  })

  test('follows const, enum, anyOf, oneOf and local references', () => {
    expect(make({ const: { a: 1 } })).toEqual({ a: 1 })
    expect(make({ enum: ['red', 'green'] })).toBe('red')
    expect(make({ anyOf: [{ type: 'boolean' }, { type: 'string' }] })).toBe(true)
    expect(make({ title: 'x', oneOf: [{ properties: { a: { type: 'boolean' } } }] })).toEqual({ a: true })
    expect(make({ $ref: '#/$defs/stop', $defs: { stop: { type: 'string' } } })).toBe('The train waits.')
    expect(make({ type: ['null', 'boolean'] })).toBe(true)
    expect(make({ type: 'null' })).toBe(null)
  })

  test('ends on schemas that refer to themselves or demand huge values', () => {
    make({ $ref: '#' })
    make({ anyOf: [{ $ref: '#' }] })
    const bush = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`m${index}`, { $ref: '#' }]))
    const grown = make({ type: 'object', properties: bush, required: Object.keys(bush) })
    expect(JSON.stringify(grown).length).toBeLessThan(20_000)
    expect(make({ type: 'array', items: { type: 'boolean' }, minItems: 1e9 })).toHaveLength(64)
    expect(make({ type: 'string', minLength: 1e9 })).toHaveLength(4_096)
  })

  test('does not repeat a large value of the schema for each item', () => {
    const sign = 'signal box '.repeat(80_000)
    for (const items of [{ const: sign }, { enum: [sign] }]) {
      const made = make({ type: 'array', minItems: 64, items })
      expect(JSON.stringify(made).length).toBeLessThan(2 * sign.length)
    }
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
    make({ type: 'array', minItems: 64, items: { properties } })
    make({ type: 'array', minItems: 64, items: { type: 'array', minItems: 64, items: { type: 'object', properties } } })
    expect(reads).toBeLessThan(30)
  })

  test('returns a value for invalid schemas', () => {
    for (const schema of [
      null,
      true,
      7,
      'object',
      [],
      { type: 5 },
      { properties: 3 },
      { enum: [] },
      { required: 'x' },
    ]) {
      expect(() => JSON.stringify(make(schema))).not.toThrow()
    }
  })

  test('keeps a member named __proto__', () => {
    const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"boolean"}}}')
    expect(JSON.stringify(make(schema))).toBe('{"__proto__":true}')
  })
})
