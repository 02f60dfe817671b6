import { expect, it } from 'vitest'
import { validLevel } from './valid-schema.ts'

it.each([
  ['a list of items', { items: [{ type: 'string' }] }],
  ['an exclusive limit of draft 4', { minimum: 1, exclusiveMinimum: true }],
  ['a property that says it is required', { properties: { a: { required: true } } }],
])('leaves %s to the choice beside null', (_, keywords) => {
  const inner = { allOf: [{}], ...keywords }
  const level = validLevel({ ...inner, nullable: true }, () => {})
  expect(level).toEqual({ anyOf: [inner, { type: 'null' }] })
})

it('moves a list of items without null', () => {
  expect(validLevel({ items: [{}], nullable: true }, () => {})).toEqual({ prefixItems: [{}] })
})
