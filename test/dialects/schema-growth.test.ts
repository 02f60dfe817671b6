import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { fitParameters } from '../../src/wire/dialects/fit/fit-schema.ts'
import { withDefinitions } from '../../src/wire/dialects/fit/valid-schema.ts'
import { rulesOf } from '../../src/wire/dialects/fit/vendor-rules.ts'
import { offerFor } from './ask-server.ts'

// A schema comes from a stranger. What a server gets is a few times as large at most, whatever refers to what.

const object = (properties: JsonObject, others: JsonObject = {}) => ({ type: 'object', properties, ...others })
const refs = (list: readonly string[]) => list.map($ref => ({ $ref }))
const definitionsOf = (schema: JsonObject) => Object.keys((withDefinitions(schema).$defs ?? {}) as JsonObject)

/** All ways to write a name with some characters as `%61`. */
function spellings(name: string): string[] {
  return [...name].reduce<string[]>(
    (starts, character) =>
      starts.flatMap(start => [start + character, `${start}%${character.charCodeAt(0).toString(16)}`]),
    [''],
  )
}

describe('places that become definitions', () => {
  it('do so once, however they are written', () => {
    const names = spellings('aaaaaaaa')
    const uses = names.map(name => `#/properties/${name}`)
    expect(definitionsOf(object({ aaaaaaaa: object({ x: {} }), b: { anyOf: refs(uses) } }))).toHaveLength(1)
    const indexes = ['0', '00', '0x0', '0.0', '', '0e1'].map(index => `#/properties/a/anyOf/${index}`)
    expect(definitionsOf(object({ a: { anyOf: [{}, {}] }, b: { anyOf: refs(indexes) } }))).toHaveLength(1)
  })

  it('have names of their own, which are short', () => {
    const schema = object(
      { 'a-b': { minimum: 1 }, 'a+b': { minimum: 2 }, c: { anyOf: refs(['#/properties/a-b', '#/properties/a+b']) } },
      { $defs: { properties_a_b: { minimum: 3 } } },
    )
    const { $defs, properties } = withDefinitions(schema) as { $defs: JsonObject; properties: JsonObject }
    const used = (properties.c as { anyOf: { $ref: string }[] }).anyOf.map(({ $ref }) => $defs[$ref.slice(8)])
    expect(used).toEqual([{ minimum: 1 }, { minimum: 2 }])
    expect($defs.properties_a_b).toEqual({ minimum: 3 })
    const long = `#/properties/a/anyOf/${'0'.repeat(5_000)}`
    const [name] = definitionsOf(object({ a: { anyOf: [{}] }, b: { $ref: long } }))
    expect(name!.length).toBeLessThan(80)
  })

  it('are not copied without end when they are inside of each other', () => {
    const depth = 60
    let inner: JsonObject = { description: 'x'.repeat(10_000) }
    for (let level = 0; level < depth; level++) inner = object({ a: inner })
    const pointers = Array.from({ length: depth }, (_, level) => `#${'/properties/a'.repeat(level + 1)}`)
    const schema = { ...inner, not: { anyOf: refs(pointers) } }
    const fitted = withDefinitions(schema)
    expect(Object.keys(fitted.$defs as JsonObject).length).toBeGreaterThan(2)
    expect(JSON.stringify(fitted).length).toBeLessThan(6 * JSON.stringify(schema).length)
  })
})

describe.each(['chat', 'responses', 'messages', 'gemini', 'converse'] as const)('parameters for %s', server => {
  const { parameters } = rulesOf(offerFor(server), server)
  const sizeOf = (schema: JsonObject) => JSON.stringify(fitParameters(schema, parameters)).length

  it('grow by a constant where tuples are inside of tuples', () => {
    let tuple: JsonObject = { type: 'array', prefixItems: [{ type: 'string' }] }
    for (let level = 0; level < 12; level++) tuple = { type: 'array', prefixItems: [tuple] }
    const schema = object({ tuple })
    expect(sizeOf(schema)).toBeLessThan(4 * JSON.stringify(schema).length)
  })

  it('read the properties of a branch once, however often it is named', () => {
    let reads = 0
    const branch = {
      type: 'object',
      get properties() {
        reads++
        return { a: {} }
      },
    }
    fitParameters(
      { $defs: { branch }, anyOf: refs(Array(200).fill('#/$defs/branch')) },
      { ...parameters, isValid: false },
    )
    expect(reads).toBeLessThan(20)
  })
})
