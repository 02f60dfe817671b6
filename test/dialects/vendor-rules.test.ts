import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'
import { parseChatRequest } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { chatJobOf } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { extraFieldRules } from '../../src/wire/dialects/chat/upstream-request.ts'
import { parseGeminiRequest } from '../../src/wire/dialects/gemini/gemini-request.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { parseResponsesRequest } from '../../src/wire/dialects/responses/responses-request.ts'
import { customInput } from '../../src/wire/dialects/tool-arguments.ts'
import { ask, envelope, json, offerFor, streamParts, wholeAnswer } from './ask-server.ts'
import { clients, requests, servers } from './wishes.ts'

// What reaches a server satisfies the rules of its vendor, and what comes back has the client's names. The checks below are
// written from the vendors' documents and error messages, not from the rules of the program.

const toolNames: Readonly<Record<Dialect, RegExp>> = {
  chat: /^[a-zA-Z0-9_-]{1,64}$/,
  responses: /^[a-zA-Z0-9_-]{1,64}$/,
  messages: /^[a-zA-Z0-9_-]{1,128}$/,
  gemini: /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/,
  converse: /^[a-zA-Z0-9_-]{1,64}$/,
}

const callIds: Readonly<Record<Dialect, RegExp>> = {
  chat: /^/,
  responses: /^.{1,64}$/,
  messages: /^[a-zA-Z0-9_-]+$/,
  gemini: /^/,
  converse: /^[a-zA-Z0-9_-]{1,64}$/,
}

/** The declared tools, and the names and ids of calls and results, wherever a body has them. */
function partsOf(body: JsonObject) {
  const tools: { name: string; schema: JsonObject }[] = []
  const names: string[] = []
  const ids: string[] = []
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) visit(item)
    if (!isJsonObject(value)) return
    const { name, parameters, input_schema: input, parametersJsonSchema, inputSchema } = value
    const schema =
      parameters ?? input ?? parametersJsonSchema ?? (isJsonObject(inputSchema) ? inputSchema.json : undefined)
    if (typeof name === 'string' && isJsonObject(schema)) tools.push({ name, schema })
    for (const key of ['call_id', 'tool_call_id', 'tool_use_id', 'toolUseId'])
      if (typeof value[key] === 'string') ids.push(value[key])
    if (value.type === 'tool_use') ids.push(value.id as string)
    for (const key of ['functionCall', 'functionResponse', 'toolUse'])
      if (isJsonObject(value[key])) names.push(value[key].name as string)
    if (value.type === 'tool_use' || value.type === 'function_call') names.push(name as string)
    if (isJsonObject(value.function) && typeof value.function.name === 'string') names.push(value.function.name)
    for (const [key, inner] of Object.entries(value)) if (!schemaKeys.has(key)) visit(inner)
  }
  visit(body)
  return { tools, names, ids }
}
const schemaKeys = new Set(['parameters', 'input_schema', 'parametersJsonSchema', 'inputSchema'])

/** Every schema inside of a schema. */
function schemasIn(schema: unknown): JsonObject[] {
  if (!isJsonObject(schema)) return []
  const maps = [schema.properties, schema.$defs].flatMap(map => (isJsonObject(map) ? Object.values(map) : []))
  const lists = [schema.anyOf, schema.oneOf, schema.allOf].flatMap(list => (Array.isArray(list) ? list : []))
  return [schema, ...[...maps, ...lists, schema.items, schema.additionalProperties].flatMap(schemasIn)]
}

function expectParameters(dialect: Dialect, schema: JsonObject): void {
  expect(schema).toMatchObject({ type: 'object', properties: expect.any(Object) })
  for (const keyword of ['anyOf', 'oneOf', 'allOf', 'not', 'enum']) expect(schema).not.toHaveProperty(keyword)
  for (const each of schemasIn(schema)) {
    expect(Object.values(each)).not.toContain(null)
    if (dialect === 'chat' || dialect === 'responses')
      if (each.type === 'array') expect(each.items).toBeTypeOf('object')
    if (dialect === 'gemini')
      for (const keyword of ['oneOf', 'allOf', 'not', 'const', 'patternProperties', '$schema'])
        expect(each).not.toHaveProperty(keyword)
  }
}

/** The subset of Anthropic's structured outputs. */
function expectOutput(schema: unknown): void {
  for (const each of schemasIn(schema)) {
    for (const keyword of [
      'minimum',
      'maximum',
      'multipleOf',
      'minLength',
      'maxLength',
      'maxItems',
      'pattern',
      'oneOf',
      'not',
    ]) {
      expect(each).not.toHaveProperty(keyword)
    }
    if (each.type === 'object') expect(each.additionalProperties).toBe(false)
    if (each.minItems !== undefined) expect(each.minItems).toBeLessThanOrEqual(1)
  }
}

const pairs = clients.flatMap(client => servers.map(server => [client, server] as const))
const longName = 'mcp__plugin_very_long_vendor_name_for_tests__server__do_the_thing_with_many_words_in_it'
// looplj/axonhub issue 1669, maximhq/bifrost issue 1000: as Claude Code sends it.
const longUser = JSON.stringify({ device_id: 'ab'.repeat(32), account_uuid: '', session_id: '0'.repeat(36) })

describe.each(pairs)('a request of %s at a server of %s', (client, server) => {
  // openai/codex issue 8174, github/copilot-cli issue 2581, google-gemini/gemini-cli issue 602.
  it.each([longName, 'calendar.respondToEvent', 'user-profile/update', '2fa_check', 'wetter_für_später'])(
    'may call a tool %s',
    name => {
      const job = requests[client]({
        tools: [{ name, schema: { type: 'object', properties: {} } }],
        calls: [{ id: 'c1', name }],
      })
      const { body, reader, changed } = ask(job, offerFor(server))
      const { tools, names } = partsOf(body)
      expect(tools[0]!.name).toMatch(toolNames[server])
      for (const called of names) expect(called).toBe(tools[0]!.name)
      if (tools[0]!.name !== name) expect(changed).toContain('tools.name')
      const answer = { calls: [{ id: 'call_1', name: tools[0]!.name, args: { city: 'a' } }] }
      const whole = wholeAnswer(server, reader, answer)
      expect(whole.choices[0]!.message.tool_calls).toMatchObject([{ function: { name } }])
      const parts = streamParts(server, reader, answer)
      const calls = parts.flatMap(part =>
        typeof part === 'string' ? [] : part.choices.flatMap(({ delta }) => delta.tool_calls ?? []),
      )
      expect(calls.map(call => call.function?.name).filter(each => each !== undefined)).toEqual([name])
    },
  )

  // github/github-mcp-server issue 1548, tailcallhq/forgecode issue 1359, langchain reports of nulls.
  it.each<[string, unknown]>([
    ['without properties', { type: 'object' }],
    ['with nulls', { type: 'object', properties: { a: { type: 'string', description: null } }, required: null }],
    ['with a list of anything', { type: 'object', properties: { tags: { type: 'array' } } }],
    [
      'with a choice at the top',
      {
        anyOf: [
          { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
          { type: 'object', properties: { b: { type: 'number' } } },
        ],
      },
    ],
    [
      'with combinations inside',
      {
        type: 'object',
        properties: { a: { oneOf: [{ const: 'x' }, { type: 'integer', minimum: 1 }] }, b: { not: { type: 'null' } } },
      },
    ],
    ['that is null', null],
  ])('may have a tool %s', (_, schema) => {
    const job = requests[client]({ tools: [{ name: 'look', schema }] })
    const { body } = ask(job, offerFor(server))
    for (const tool of partsOf(body).tools) expectParameters(server, tool.schema)
    expect(JSON.stringify(body)).not.toMatch(/"(?:strict|description|parameters)":null/)
    expect(JSON.stringify(body)).not.toContain('eager_input_streaming')
  })

  it('may have long ids of calls, which stay pairs', () => {
    const ids = [`call_x__thought__${'s'.repeat(120)}`, 'functions.look:0']
    const job = requests[client]({
      tools: [{ name: 'look', schema: { type: 'object' } }],
      calls: ids.map(id => ({ id, name: 'look' })),
    })
    const sent = partsOf(ask(job, offerFor(server)).body).ids
    for (const id of sent) expect(id).toMatch(callIds[server])
    if (server !== 'gemini' && server !== 'chat') expect(new Set(sent).size).toBe(2)
  })

  it('gets another id for a call whose id an earlier turn has', () => {
    const job = requests[client]({
      tools: [{ name: 'look', schema: { type: 'object' } }],
      calls: [{ id: 'call_0', name: 'look' }],
    })
    const { reader } = ask(job, offerFor(server))
    const answer = { calls: ['call_0', 'call_1'].map(id => ({ id, name: 'look', args: {} })) }
    const whole = wholeAnswer(server, reader, answer)
    const ids = (whole.choices[0]!.message.tool_calls as { id: string }[]).map(({ id }) => id)
    expect(ids).toEqual([`call_0_${envelope.id.slice(-8)}`, 'call_1'])
  })

  it('may name its user at length', () => {
    const { body, changed, dropped } = ask(requests[client]({ endUser: longUser }), offerFor(server))
    const named = body.user ?? body.safety_identifier
    if (server === 'messages' || server === 'converse' || client === 'gemini') return
    if (server === 'gemini') return expect(dropped).toContain('user')
    expect(named).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(changed.some(field => field === 'user' || field === 'safety_identifier')).toBe(true)
  })

  // BerriAI/litellm issue 20813, laravel/ai issue 715.
  it('may want an answer by a schema', () => {
    const output = {
      type: 'object',
      properties: {
        score: { type: 'integer', minimum: 1 },
        tags: { type: 'array', minItems: 3, maxItems: 3, items: { type: 'string', maxLength: 9 } },
      },
      required: ['score', 'tags'],
    }
    const { body, changed } = ask(requests[client]({ output }), offerFor(server))
    if (server !== 'messages') return
    const { format } = body.output_config as { format: { schema: JsonObject } }
    expectOutput(format.schema)
    expect(JSON.stringify(format.schema)).toContain('minimum: 1')
    expect(changed).toContain('response_format')
  })
})

it('any schema, name and id reaches each server within its rules', () => {
  const name = fc.oneof(fc.stringMatching(/^[a-z0-9./_ü:-]{1,90}$/), fc.constant('look'))
  const schema = fc.letrec(tie => ({
    node: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      fc.constantFrom(
        { type: 'string', format: 'uri', minLength: 2 },
        { type: 'array' },
        { const: 'x' },
        { enum: ['a', 'b'] },
        { type: 'integer', minimum: 1, exclusiveMaximum: 9 },
      ),
      fc.record({
        type: fc.constant('object'),
        properties: fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), tie('node'), { maxKeys: 3 }),
      }),
      fc.record({ type: fc.constant('array'), items: tie('node'), minItems: fc.nat(4) }),
      fc.record({ oneOf: fc.array(tie('node'), { minLength: 1, maxLength: 2 }) }),
      fc.record({
        anyOf: fc.array(tie('node'), { minLength: 1, maxLength: 2 }),
        description: fc.constantFrom(null, 'd'),
      }),
      fc.record({
        allOf: fc.array(tie('node'), { minLength: 1, maxLength: 2 }),
        patternProperties: fc.constant({ '^x': {} }),
      }),
    ),
  })).node as fc.Arbitrary<JsonObject>
  fc.assert(
    fc.property(
      fc.constantFrom(...clients),
      fc.constantFrom(...servers),
      name,
      schema,
      (client, server, tool, given) => {
        const job = requests[client]({
          tools: [{ name: tool, schema: { type: 'object', ...given } }],
          calls: [{ id: `${tool}:0`, name: tool }],
          output: { type: 'object', properties: { a: given } },
        })
        const { body } = ask(job, offerFor(server))
        const { tools, names, ids } = partsOf(body)
        for (const each of tools) {
          expect(each.name).toMatch(toolNames[server])
          expectParameters(server, each.schema)
        }
        for (const called of names) expect(called).toMatch(toolNames[server])
        for (const id of ids) expect(id).toMatch(callIds[server])
        const config = body.output_config
        if (server === 'messages' && isJsonObject(config)) expectOutput((config.format as JsonObject).schema)
      },
    ),
    { numRuns: 400 },
  )
})

describe('a single rule', () => {
  // farion1231/cc-switch issue 7103, earendil-works/pi issue 6522.
  it('raises a limit below 16 at servers of responses', () => {
    for (const client of clients) {
      const { body, changed } = ask(requests[client]({ maxTokens: 1 }), offerFor('responses'))
      expect(body.max_output_tokens).toBe(16)
      expect(changed).toEqual(['max_output_tokens'])
    }
  })

  it('names top_p where a server of messages gets the temperature only', () => {
    const job = parseChatRequest(
      json({ model: 'm', messages: [{ role: 'user', content: 'x' }], temperature: 0.2, top_p: 0.4 }),
    )
    const { body, dropped } = ask(job, offerFor('messages'))
    expect([body.temperature, body.top_p]).toEqual([0.2, undefined])
    expect(dropped).toContain('top_p')
  })

  // openai/openai-agents-python issue 656, googleapis/python-genai issue 867.
  it('asks Gemini 2 in words for JSON beside functions', () => {
    const wish = {
      tools: [{ name: 'look', schema: { type: 'object' } }],
      output: { type: 'object', properties: { a: { type: 'string' } } },
    }
    const old = ask(requests.chat(wish), offerFor('gemini', 'cloud', 'gemini-2.5-pro'))
    expect(old.body.generationConfig).not.toHaveProperty('responseMimeType')
    expect(JSON.stringify(old.body.systemInstruction)).toContain('JSON Schema')
    expect(old.dropped).toContain('response_format')
    expect(ask(requests.chat(wish), offerFor('gemini')).body.generationConfig).toHaveProperty('responseMimeType')
  })

  it.each([
    ['image/jpg', '/9j/4AAQ', 'image/jpeg'],
    ['image/png', '/9j/4AAQ', 'image/jpeg'],
    ['image/jpeg', 'iVBORw0KGgoAAA', 'image/png'],
    ['image/png', 'UklGRh4AAABXRUJQVlA4', 'image/webp'],
    ['image/png', 'AAAA', 'image/png'],
  ])('sends %s of the bytes %s as %s', (type, data, sent) => {
    const part = { type: 'image_url', image_url: { url: `data:${type};base64,${data}` } }
    const job = parseChatRequest(json({ model: 'm', messages: [{ role: 'user', content: [part] }] }))
    expect(JSON.stringify(ask(job, offerFor('messages')).body)).toContain(`"media_type":"${sent}"`)
    expect(JSON.stringify(ask(job, offerFor('gemini')).body)).toContain(`"mimeType":"${sent}"`)
    const source = { type: 'base64', media_type: type, data }
    const own = parseMessagesRequest(
      json({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: [{ type: 'image', source }] }] }),
    )
    expect(JSON.stringify(ask(chatJobOf(own, extraFieldRules()), offerFor('messages')).body)).toContain(
      `"media_type":"${sent}"`,
    )
  })

  // decolua/9router issue 1371, router-for-me/CLIProxyAPI issue 5753.
  it.each([['{"input":"a patch"}'], ['{"patch":"a patch"}'], ['"a patch"'], ['a patch']])(
    'reads the text of a custom tool from %s',
    text => {
      expect(customInput(text)).toBe('a patch')
    },
  )

  it('leaves a body of a local server alone that it can take', () => {
    const schema = {
      anyOf: [{ type: 'object', properties: { a: { type: 'string' } } }],
      type: 'object',
      properties: {},
    }
    const { body, changed } = ask(requests.chat({ tools: [{ name: 'look', schema }] }), offerFor('chat', 'local'))
    expect(partsOf(body).tools[0]!.schema).toEqual(schema)
    expect(changed).toEqual([])
  })

  it('asks for a summary of the thinking where a client of chat can show it', () => {
    const asked = (body: object) =>
      ask(
        parseChatRequest(json({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...body })),
        offerFor('responses'),
      )
    expect(asked({ reasoning_effort: 'high' }).body.reasoning).toEqual({ effort: 'high', summary: 'auto' })
    expect(asked({ reasoning_effort: 'none' }).body.reasoning).toEqual({ effort: 'none' })
    expect(asked({}).body.reasoning).toBeUndefined()
  })

  it("asks Google's models only for one of a list of texts", () => {
    const schema = { type: 'STRING', enum: ['yes', 'no'] }
    const generationConfig = { responseMimeType: 'text/x.enum', responseSchema: schema }
    const parsed = parseGeminiRequest(json({ contents: [{ parts: [{ text: 'x' }] }], generationConfig }), {
      model: 'm',
      stream: false,
    })
    const job = chatJobOf(parsed, extraFieldRules())
    expect(job.source!.isNativeOnly).toBe(true)
    expect(ask(job, offerFor('gemini')).body.generationConfig).toMatchObject(generationConfig)
  })

  it('passes audio of a client of responses to servers that hear', () => {
    const audio = { data: 'UklGRg==', format: 'wav' }
    const content = [{ type: 'input_audio', input_audio: audio }]
    const job = chatJobOf(
      parseResponsesRequest(json({ model: 'm', input: [{ role: 'user', content }] })),
      extraFieldRules(),
    )
    expect(job.features).toContain('audio')
    expect(JSON.stringify(ask(job, offerFor('chat')).body.messages)).toContain(JSON.stringify(audio))
    expect(JSON.stringify(ask(job, offerFor('gemini')).body.contents)).toContain('"mimeType":"audio/wav"')
    expect(JSON.stringify(ask(job, offerFor('responses')).body.input)).toContain(JSON.stringify(audio))
  })

  it('refuses threads as a server without them does', () => {
    const body = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'x' }], thread: { type: 'create' } }
    expect(() => parseMessagesRequest(json(body))).toThrow(
      expect.objectContaining({
        facts: { details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } },
      }),
    )
  })
})
