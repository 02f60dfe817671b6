import { expect, it } from 'vitest'
import { withoutNullable } from './nullable-schema.ts'

const none = { type: 'null' }

it.each<[string, object, object]>([
  ['a type', { type: 'string' }, { type: ['string', 'null'] }],
  ['types', { type: ['string', 'null'] }, { type: ['string', 'null'] }],
  ['values', { type: 'string', enum: ['a'] }, { type: ['string', 'null'], enum: ['a', null] }],
  ['values with null', { enum: ['a', null] }, { enum: ['a', null] }],
  ['one value', { const: 'a' }, { enum: ['a', null] }],
  ['choices', { anyOf: [{ type: 'string' }] }, { anyOf: [{ type: 'string' }, none] }],
  ['a choice of null', { oneOf: [{ type: 'string' }, none] }, { oneOf: [{ type: 'string' }, none] }],
  ['a reference', { $ref: '#/$defs/a', title: 'A' }, { title: 'A', anyOf: [{ $ref: '#/$defs/a' }, none] }],
  ['all of several', { allOf: [{ minLength: 1 }] }, { anyOf: [{ allOf: [{ minLength: 1 }] }, none] }],
  ['anything', { description: 'x' }, { description: 'x' }],
])('allows null beside %s', (_, schema, expected) => {
  expect(withoutNullable({ ...schema, nullable: true })).toEqual(expected)
  expect(withoutNullable({ ...schema, nullable: false })).toEqual(schema)
})
