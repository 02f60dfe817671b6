import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'
import { parseChatRequest } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { ask, json, offerFor, streamParts, wholeAnswer } from './ask-server.ts'
import { clients, requests, servers } from './wishes.ts'

// Whatever a client sends as a schema, a server gets JSON Schema 2020-12 within the rules of its vendor, and answers come back
// with the client's names. The checks are written from the vendors' documents and error messages.

type Server = (typeof servers)[number]

const ajv = new Ajv2020({ strict: false, logger: false })
const isValid = (schema: unknown) => ajv.validateSchema(schema as object) === true

/** The schemas of a body: the parameters of its tools, and what its answer must be. */
function schemasOf(body: JsonObject, server: Server): { parameters: JsonObject[]; output: unknown; isStrict: boolean } {
  const tools = (body.tools ??
    (isJsonObject(body.toolConfig) ? body.toolConfig.tools : undefined) ??
    []) as JsonObject[]
  const declared = tools.flatMap(tool => (tool.functionDeclarations as JsonObject[] | undefined) ?? [tool])
  const parameters = declared.flatMap(tool => {
    const { parameters: own, input_schema: input, parametersJsonSchema, function: inner, toolSpec } = tool
    const schema =
      own ??
      input ??
      parametersJsonSchema ??
      (isJsonObject(inner) ? inner.parameters : undefined) ??
      (isJsonObject(toolSpec) ? (toolSpec.inputSchema as JsonObject).json : undefined)
    return isJsonObject(schema) ? [schema] : []
  })
  const at = (...path: string[]): unknown =>
    path.reduce<unknown>((value, key) => (isJsonObject(value) ? value[key] : undefined), body)
  const paths: Readonly<Record<Server, readonly string[]>> = {
    chat: ['response_format', 'json_schema'],
    responses: ['text', 'format'],
    messages: ['output_config', 'format'],
    gemini: ['generationConfig'],
    converse: ['outputConfig', 'textFormat', 'structure', 'jsonSchema'],
  }
  const holder = at(...paths[server]) as JsonObject | undefined
  const output = holder?.schema ?? holder?.responseJsonSchema
  return {
    parameters,
    output: typeof output === 'string' ? JSON.parse(output) : output,
    isStrict: holder?.strict === true,
  }
}

/** Every schema inside of a schema. */
function levels(schema: unknown): JsonObject[] {
  if (!isJsonObject(schema)) return []
  const { properties, $defs, definitions, anyOf, oneOf, allOf, prefixItems, items, additionalProperties, not } = schema
  const maps = [properties, $defs, definitions].flatMap(map => (isJsonObject(map) ? Object.values(map) : []))
  const lists = [anyOf, oneOf, allOf, prefixItems].flatMap(list => (Array.isArray(list) ? list : []))
  return [schema, ...[...maps, ...lists, items, additionalProperties, not].flatMap(levels)]
}

function expectSchema(schema: JsonObject, server: Server): void {
  expect(isValid(schema), JSON.stringify(schema)).toBe(true)
  for (const level of levels(schema)) {
    if (typeof level.$ref === 'string' && level.$ref !== '#') {
      const [, place, name] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(level.$ref)!
      expect(schema[place!]).toHaveProperty([name!])
    }
    if (server !== 'gemini') continue
    const { properties, required, enum: values } = level
    if (isJsonObject(properties))
      for (const name of (required ?? []) as string[]) expect(properties).toHaveProperty([name])
    if (values !== undefined) expect(values).not.toContain('')
  }
}

function expectParameters(schema: JsonObject, server: Server): void {
  expectSchema(schema, server)
  expect(schema).toMatchObject({ type: 'object', properties: expect.any(Object) })
  for (const keyword of ['anyOf', 'oneOf', 'allOf', 'not', 'enum']) expect(schema).not.toHaveProperty(keyword)
  if (server === 'chat' || server === 'responses')
    for (const level of levels(schema)) if (level.type === 'array') expect(level.items).toBeTypeOf('object')
  if (server === 'messages' || server === 'converse') {
    for (const name of Object.keys(schema.properties as object)) expect(name).toMatch(/^[a-zA-Z0-9_.-]{1,64}$/)
    for (const level of levels(schema)) expect(level).not.toHaveProperty('patternProperties')
  }
}

/** OpenAI's strict mode: "Structured outputs", supported schemas. */
function expectStrict(schema: unknown): void {
  expect(schema).toMatchObject({ type: 'object' })
  for (const level of levels(schema)) {
    const { properties, required = [], additionalProperties, type, $ref } = level
    for (const keyword of [
      'oneOf',
      'allOf',
      'not',
      'patternProperties',
      'minLength',
      'maxLength',
      'uniqueItems',
      'default',
    ])
      expect(level).not.toHaveProperty(keyword)
    if ($ref !== undefined) expect(Object.keys(level)).toEqual(['$ref'])
    else expect(['type', 'anyOf', 'enum', 'const'].some(key => key in level)).toBe(true)
    if (type !== 'object') continue
    expect(additionalProperties).toBe(false)
    expect([...(required as string[])].sort()).toEqual(Object.keys((properties ?? {}) as object).sort())
  }
}

const faults: readonly [string, object][] = [
  ['empty lists for empty objects', { type: 'object', properties: [], required: [] }],
  ['properties that are lists inside', { type: 'object', properties: { a: { type: 'object', properties: [] } } }],
  ['limits of draft 4', { type: 'object', properties: { a: { type: 'integer', minimum: 0, exclusiveMinimum: true } } }],
  ['required of draft 3', { type: 'object', properties: { a: { type: 'string', required: true } } }],
  ['a tuple of draft 7', { type: 'object', properties: { a: { type: 'array', items: [{ type: 'string' }, {}] } } }],
  [
    'types of other languages',
    { type: 'object', properties: { a: { type: 'str' }, b: { type: 'any' }, c: { type: 'List' } } },
  ],
  ['types in capitals', { type: 'OBJECT', properties: { a: { type: 'STRING' } } }],
  ['types in place of schemas', { type: 'object', properties: { a: 'string', type: 'object' } }],
  ['an empty list of values', { type: 'object', properties: { a: { type: 'string', enum: [] } } }],
  ['values twice, and an empty one', { type: 'object', properties: { a: { enum: ['a', 'a', ''] } } }],
  ['limits as texts', { type: 'object', properties: { a: { type: 'string', maxLength: '9', minLength: -1 } } }],
  ['a pattern of another language', { type: 'object', properties: { a: { type: 'string', pattern: '(?P<x>a)\\Z' } } }],
  ['empty combinations', { type: 'object', properties: { a: { anyOf: [], allOf: [null] } } }],
  ['a required property that is not there', { type: 'object', properties: {}, required: ['ref', 'ref'] }],
  ['a reference that leads nowhere', { type: 'object', properties: { a: { $ref: '#/components/schemas/A' } } }],
  [
    'a reference to another property',
    { type: 'object', properties: { a: { type: 'object', properties: {} }, b: { $ref: '#/properties/a' } } },
  ],
  ['draft 4', { $schema: 'http://json-schema.org/draft-04/schema#', id: 'x', type: 'object', properties: {} }],
  ['patterns of names', { type: 'object', properties: {}, patternProperties: { '^(.*)$': {} } }],
  ['a description that is none', { type: 'object', title: 7, description: ['a'], properties: {} }],
  [
    'words of OpenAPI',
    {
      type: 'object',
      nullable: true,
      properties: {
        a: {
          type: 'string',
          nullable: true,
          example: 'x',
          xml: { name: 'a' },
          externalDocs: { url: 'https://x.example' },
        },
        b: {
          type: 'integer',
          minimum: 0,
          exclusiveMinimum: true,
          exclusiveMaximum: false,
          format: 'int32',
          nullable: false,
        },
        nullable: { oneOf: [{ type: 'string' }], discriminator: { propertyName: 'kind', mapping: { a: '#/a' } } },
      },
    },
  ],
  [
    'names with brackets',
    { type: 'object', properties: { 'filter[id]': { type: 'string' }, $top: {} }, required: ['$top'] },
  ],
]

describe.each(clients.flatMap(client => servers.map(server => [client, server] as const)))(
  'a schema of %s at a server of %s',
  (client, server) => {
    it.each(faults)('may have %s', (_, schema) => {
      const { body } = ask(requests[client]({ tools: [{ name: 'look', schema }] }), offerFor(server))
      const { parameters } = schemasOf(body, server)
      expect(parameters).toHaveLength(1)
      expectParameters(parameters[0]!, server)
    })

    it.each([true, false])("has the client's names of properties in its calls (stream: %s)", stream => {
      const properties = { 'filter[id]': { type: 'string' }, 'Account Number': { type: 'number' }, plain: {} }
      const schema = { type: 'object', properties, required: ['filter[id]'] }
      const job = requests[client]({
        tools: [
          { name: 'look', schema },
          { name: 'other', schema: { type: 'object', properties: {} } },
        ],
        stream,
      })
      const { body, reader } = ask(job, offerFor(server))
      const [sent] = schemasOf(body, server).parameters
      const names = Object.keys(sent!.properties as object)
      expect(names).toHaveLength(3)
      expect(names).toContain((sent!.required as string[])[0])
      const args = Object.fromEntries(names.map(name => [name, name === 'plain' ? 'p' : 1]))
      const answer = {
        calls: [
          { id: 'call_1', name: 'look', args },
          { id: 'call_2', name: 'other', args: { at: 'sea' } },
        ],
      }
      const given = { 'filter[id]': 1, 'Account Number': 1, plain: 'p' }
      const texts = ['', '']
      if (stream) {
        for (const part of streamParts(server, reader, answer)) {
          if (typeof part === 'string') continue
          for (const { delta } of part.choices)
            for (const call of delta.tool_calls ?? []) texts[call.index] += call.function?.arguments ?? ''
        }
      } else {
        const calls = wholeAnswer(server, reader, answer).choices[0]!.message.tool_calls as JsonObject[]
        calls.forEach((call, at) => {
          texts[at] = (call.function as JsonObject).arguments as string
        })
      }
      expect(texts.map(text => JSON.parse(text))).toEqual([given, { at: 'sea' }])
    })

    it('may have nullable properties, whose null is a value', () => {
      const properties = {
        when: { type: 'string', nullable: true },
        unit: { type: 'string', enum: ['c', 'f'], nullable: true },
        place: { $ref: '#/$defs/place', nullable: true },
      }
      const place = { type: 'object', properties: { nullable: { type: 'boolean' } } }
      const schema = { type: 'object', properties, required: ['when', 'unit', 'place'], $defs: { place } }
      const { body } = ask(requests[client]({ tools: [{ name: 'look', schema }] }), offerFor(server))
      const [sent] = schemasOf(body, server).parameters
      expect(sent).toMatchObject({
        properties: {
          when: { type: ['string', 'null'] },
          unit:
            server === 'gemini'
              ? { type: 'string', enum: ['c', 'f'], nullable: true }
              : { type: ['string', 'null'], enum: ['c', 'f', null] },
          place: { anyOf: [{ $ref: '#/$defs/place' }, { type: 'null' }] },
        },
        $defs: { place: { properties: { nullable: { type: 'boolean' } } } },
      })
    })

    it('is sent once for each name of a tool', () => {
      const tools = ['a', 'b'].map(kind => ({ name: 'look', schema: { type: 'object', properties: { [kind]: {} } } }))
      const { body } = ask(requests[client]({ tools }), offerFor(server))
      expect(schemasOf(body, server).parameters).toMatchObject([{ properties: { b: {} } }])
    })
  },
)

it('any JSON as a schema reaches each server within its rules, streamed and whole', () => {
  const keyword = fc.constantFrom(
    ...[
      'type',
      'properties',
      'required',
      'items',
      'enum',
      'const',
      'anyOf',
      'oneOf',
      'allOf',
      'not',
      'format',
      'pattern',
    ],
    ...['minimum', 'exclusiveMinimum', 'multipleOf', 'minLength', 'minItems', 'additionalProperties', '$ref', '$defs'],
    ...['title', 'description', 'default', 'uniqueItems', 'nullable', 'patternProperties', '$schema', 'prefixItems'],
  )
  const schema = fc.letrec(tie => ({
    node: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<unknown>(
        'object',
        'string',
        'any',
        'STRING',
        '#/$defs/a',
        '#/properties/a',
        '^[',
        '^a$',
        true,
        false,
      ),
      fc.constantFrom<unknown>(0, -1, 2.5, '3', null, [], {}, ['a', 'a'], ['string', 'null'], ''),
      fc.dictionary(fc.oneof(keyword, fc.constantFrom('a', 'b', 'c[d]')), tie('node'), { maxKeys: 4 }),
      fc.array(tie('node'), { maxLength: 3 }),
      fc.record({ type: fc.constantFrom('object', 'array'), properties: tie('node'), items: tie('node') }),
    ),
  })).node
  const object = fc.record({
    type: fc.constantFrom('object', 'OBJECT', undefined),
    properties: fc.oneof(fc.dictionary(fc.constantFrom('a', 'b', 'c[d]', '$e'), schema), schema),
    required: fc.oneof(fc.constant(['a']), schema),
    $defs: fc.option(fc.dictionary(fc.constantFrom('a', 'b'), schema), { nil: undefined }),
  })
  fc.assert(
    fc.property(
      fc.constantFrom(...clients),
      fc.constantFrom(...servers),
      fc.boolean(),
      object,
      fc.boolean(),
      (client, server, stream, given, strict) => {
        const sent = JSON.parse(JSON.stringify(given)) as JsonObject
        const job = requests[client]({ tools: [{ name: 'look', schema: sent, strict }], output: sent, stream })
        const { body } = ask(job, offerFor(server))
        if (server === 'chat' || server === 'responses') expect(body.stream).toBe(stream)
        const { parameters, output, isStrict } = schemasOf(body, server)
        for (const each of parameters) expectParameters(each, server)
        if (isJsonObject(output)) expectSchema(output, server)
        if (isStrict && (server === 'chat' || server === 'responses')) expectStrict(output)
      },
    ),
    { numRuns: 600 },
  )
})

describe('strict', () => {
  const card = { type: 'object', properties: { a: { type: 'string', minLength: 1 } }, required: ['a'] }
  it.each<[string, object, boolean]>([
    ['closes objects', card, true],
    ['cannot have optional properties', { ...card, required: [] }, false],
    [
      'cannot have objects of any keys',
      { ...card, properties: { a: { type: 'object', additionalProperties: {} } } },
      false,
    ],
    ['cannot have values of any type', { ...card, properties: { a: { title: 'A' } } }, false],
    ['wraps references', { ...card, $defs: { b: card }, properties: { a: { $ref: '#/$defs/b', title: 'A' } } }, true],
    [
      'takes an allOf of one',
      { ...card, $defs: { b: card }, properties: { a: { allOf: [{ $ref: '#/$defs/b' }] } } },
      true,
    ],
  ])('of OpenAI %s', (_, schema, isStrict) => {
    for (const server of ['chat', 'responses'] as const) {
      const { body, changed } = ask(requests.chat({ output: schema as JsonObject }), offerFor(server))
      const sent = schemasOf(body, server)
      expect(sent.isStrict).toBe(isStrict)
      expect(changed).toContain('response_format')
      if (isStrict) expectStrict(sent.output)
      const strictTool = ask(requests.chat({ tools: [{ name: 'look', schema, strict: true }] }), offerFor(server))
      expect(JSON.stringify(strictTool.body.tools)).toContain(`"strict":${isStrict}`)
      // Local servers generate by the schema as it is.
      const local = ask(requests.chat({ output: schema as JsonObject }), offerFor('chat', 'local'))
      expect(schemasOf(local.body, 'chat')).toMatchObject({ output: schema, isStrict: true })
    }
  })
})

describe('messages for clouds of chat', () => {
  it('have names of speakers without blanks, and a text where an answer says nothing', () => {
    const messages = [
      { role: 'user', content: 'x', name: 'John Doe <j@example.com>' },
      { role: 'assistant', content: null },
      { role: 'assistant', content: [], tool_calls: [] },
      { role: 'user', content: 'y', name: 'ok' },
    ]
    const { body, changed } = ask(parseChatRequest(json({ model: 'm', messages })), offerFor('chat'))
    expect(body.messages).toMatchObject([
      { name: 'John_Doe_j@example.com_' },
      { content: '' },
      { content: '' },
      { name: 'ok', content: 'y' },
    ])
    expect(changed).toEqual(['messages.name'])
    const local = ask(parseChatRequest(json({ model: 'm', messages })), offerFor('chat', 'local')).body.messages
    expect(local).toMatchObject([{ name: 'John Doe <j@example.com>' }, { content: null }, {}, {}])
  })

  it('name the schema of an answer within the rule of names', () => {
    const format = { type: 'json_schema', json_schema: { name: 'my card/v2', schema: { type: 'object' } } }
    const job = parseChatRequest(
      json({ model: 'm', messages: [{ role: 'user', content: 'x' }], response_format: format }),
    )
    for (const server of ['chat', 'responses'] as const)
      expect(JSON.stringify(ask(job, offerFor(server)).body)).toMatch(/"name":"my_card_v2_[0-9a-f]{8}"/)
  })
})
