import { expect, test } from 'vitest'
import { exampleTools, readTools } from '../../console/src/features/playground/read-tools.ts'

const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const tool = { type: 'function', function: { name: 'weather', parameters } }

test.each([
  ['nothing', '  ', []],
  ['a list of tools', JSON.stringify([tool]), [tool]],
  ['one tool', JSON.stringify(tool), [tool]],
  ['a bare function', JSON.stringify({ name: 'weather', parameters }), [tool]],
  ['a function without parameters', '[{"name":"now"}]', [{ type: 'function', function: { name: 'now' } }]],
])('%s is read', (_name, json, tools) => {
  expect(readTools(json)).toEqual({ tools, problem: null })
})

test('the example has no mistake', () => {
  expect(readTools(exampleTools)).toMatchObject({ problem: null, tools: [{ function: { name: 'get_weather' } }] })
})

const withSchema = (schema: object) => JSON.stringify([{ name: 'f', parameters: { type: 'object', ...schema } }])

test.each([
  ['text that is not JSON', '[{', /^This is not JSON: /],
  ['a number', '[1]', /^Function 1 must be an object/],
  ['a name with a blank', '[{"name":"a b"}]', /^Function 1: name must have/],
  ['another type of tool', '[{"type":"web","function":{"name":"a"}}]', /^Function 1: type must be "function"/],
  ['the same name twice', '[{"name":"a"},{"name":"a"}]', /^Two functions have the name a\./],
  ['parameters that are no object', '[{"name":"a","parameters":{"type":"string"}}]', /^a: parameters must be/],
  ['a wrong type', withSchema({ properties: { x: { type: 'strin' } } }), /properties\.x\.type: "strin" is no type/],
  ['a required name that is text', withSchema({ required: 'x' }), /required must be a list/],
  ['an empty enum', withSchema({ properties: { x: { enum: [] } } }), /properties\.x\.enum must be a list/],
  ['items that are text', withSchema({ properties: { x: { items: 'a' } } }), /properties\.x\.items must be a schema/],
  ['a wrong alternative', withSchema({ anyOf: [{}, { type: 'x' }] }), /parameters\.anyOf\[1\]\.type/],
])('%s is named', (_name, json, problem) => {
  expect(readTools(json)).toEqual({ tools: [], problem: expect.stringMatching(problem) })
})

test.each([
  ['alternatives', { properties: { city: {}, zip: {} }, anyOf: [{ required: ['city'] }, { required: ['zip'] }] }],
  ['allOf', { allOf: [{ properties: { city: {} } }, { required: ['city'] }] }],
  ['a reference', { $defs: { place: { properties: { city: {} } } }, $ref: '#/$defs/place', required: ['city'] }],
  ['a pattern', { patternProperties: { '^c': {} }, required: ['city'] }],
])('a name that is required by %s is no mistake', (_name, schema) => {
  expect(readTools(withSchema(schema)).problem).toBe(null)
})
