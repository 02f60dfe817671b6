import { Ajv } from 'ajv'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import type { ClientToolType, Dialect } from '../../src/base/domain/conversation.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'
import { eligible } from '../../src/request/admit/eligible.ts'
import { explainExclusions } from '../../src/request/admit/explain-exclusions.ts'
import { clientCallItem, clientTool, functionCallOf } from '../../src/wire/dialects/responses/client-tools.ts'
import { SseDecoder } from '../../src/wire/dialects/sse/sse-decoder.ts'
import { crossingClients } from '../dispatch/crossing-clients.ts'
import { offerAt } from '../dispatch/dispatching.ts'
import { type JsonSchema, schemaArbitrary } from '../harness/schema-arbitrary.ts'
import type { ScriptedDialect } from '../harness/scripted-vendors.ts'
import { healthOf } from '../supply/random-market.ts'
import { ask, envelope, offerFor, streamParts, wholeAnswer } from './ask-server.ts'

// Tools that the client runs and that the models of one vendor know without a definition: servers of that vendor's dialect get
// them as they are, others get functions, and the client gets calls in its own form. The shapes are those of the vendors' SDKs.

const servers = ['chat', 'responses', 'messages', 'gemini', 'converse'] as const

interface ToolCase {
  readonly tool: JsonObject
  /** Fields of the request that demand this tool. */
  readonly demand: JsonObject
  /** The function that a server of another dialect gets, and what its model writes. */
  readonly name: string
  readonly args: Record<string, unknown>
  /** The call as the client gets it. */
  readonly call: JsonObject
  /** The result of the call as the client sends it, and a part of it that every server must get. */
  readonly result: JsonObject
  readonly says: string
  /** Types of events of a stream besides those of the item. */
  readonly events?: readonly string[]
}

const png = 'iVBORw0KGgo='
const choice = (type: string) => ({ tool_choice: { type } })
const patch = { type: 'update_file', path: 'src/a.ts', diff: '@@\n-old\n+new\n' }
const click = { type: 'click', x: 4, y: 5, button: 'left' }
const screen = (type: string) => ({
  ...{ type, call_id: 'call_1' },
  output: { type: 'computer_screenshot', image_url: `data:image/png;base64,${png}` },
})

const ofResponses: readonly ToolCase[] = [
  {
    tool: { type: 'apply_patch' },
    demand: choice('apply_patch'),
    name: 'apply_patch',
    args: patch,
    call: { type: 'apply_patch_call', call_id: 'call_1', status: 'completed', operation: patch },
    result: { type: 'apply_patch_call_output', call_id: 'call_1', status: 'failed', output: 'no such line' },
    says: 'no such line',
    events: ['response.apply_patch_call_operation_diff.delta', 'response.apply_patch_call_operation_diff.done'],
  },
  {
    tool: { type: 'shell', environment: { type: 'local' } },
    demand: choice('shell'),
    name: 'shell',
    args: { commands: ['ls', 'pwd'], timeout_ms: 900, max_output_length: 800 },
    call: {
      ...{ type: 'shell_call', call_id: 'call_1', status: 'completed', environment: { type: 'local' } },
      action: { commands: ['ls', 'pwd'], timeout_ms: 900, max_output_length: 800 },
    },
    result: {
      ...{ type: 'shell_call_output', call_id: 'call_1', max_output_length: 800 },
      output: [{ stdout: 'a-file.txt', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
    },
    says: 'a-file.txt',
    events: ['added', 'delta', 'done', 'added', 'delta', 'done'].map(each => `response.shell_call_command.${each}`),
  },
  {
    tool: { type: 'local_shell' },
    demand: { tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'local_shell' }] } },
    name: 'local_shell',
    args: { command: ['ls', '-l'], working_directory: '/tmp' },
    call: {
      ...{ type: 'local_shell_call', call_id: 'call_1', status: 'completed' },
      action: { type: 'exec', command: ['ls', '-l'], env: {}, working_directory: '/tmp', timeout_ms: null, user: null },
    },
    result: { type: 'local_shell_call_output', id: 'call_1', output: 'a-file.txt' },
    says: 'a-file.txt',
  },
  {
    tool: { type: 'computer' },
    demand: choice('computer'),
    name: 'computer',
    args: { actions: [click, { type: 'screenshot' }] },
    call: {
      ...{ type: 'computer_call', call_id: 'call_1', status: 'completed', pending_safety_checks: [] },
      actions: [click, { type: 'screenshot' }],
    },
    result: screen('computer_call_output'),
    says: png,
  },
  {
    tool: { type: 'computer_use_preview', display_width: 800, display_height: 600, environment: 'browser' },
    demand: choice('computer_use_preview'),
    name: 'computer',
    args: click,
    call: {
      ...{ type: 'computer_call', call_id: 'call_1', status: 'completed', pending_safety_checks: [] },
      action: click,
    },
    result: screen('computer_call_output'),
    says: png,
  },
]

const ofMessages = (
  tool: JsonObject & { name: string },
  input: Record<string, unknown>,
  content: unknown = 'a-file.txt',
  says = 'a-file.txt',
): ToolCase => ({
  tool,
  demand: { tool_choice: { type: 'tool', name: tool.name } },
  name: tool.name,
  args: input,
  call: { type: 'tool_use', id: 'call_1', name: tool.name, input },
  result: { type: 'tool_result', tool_use_id: 'call_1', content },
  says,
})

const cases: Readonly<Record<Exclude<ScriptedDialect, 'chat'>, readonly ToolCase[]>> = {
  responses: ofResponses,
  messages: [
    ofMessages({ type: 'bash_20250124', name: 'bash' }, { command: 'ls' }),
    ofMessages({ type: 'text_editor_20250124', name: 'str_replace_editor' }, { command: 'undo_edit', path: '/a.ts' }),
    ofMessages(
      { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool', max_characters: 900 },
      { command: 'view', path: '/a.ts', view_range: [1, 9] },
    ),
    ofMessages({ type: 'memory_20250818', name: 'memory' }, { command: 'view', path: '/memories' }),
    ofMessages(
      { type: 'computer_20250124', name: 'computer', display_width_px: 800, display_height_px: 600 },
      { action: 'scroll', coordinate: [4, 5], scroll_direction: 'down', scroll_amount: 3 },
      [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }],
      png,
    ),
  ],
  gemini: [
    {
      tool: { computerUse: { environment: 'ENVIRONMENT_BROWSER', excludedPredefinedFunctions: ['search'] } },
      demand: { toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['click_at'] } } },
      name: 'click_at',
      args: { x: 4, y: 5 },
      call: { functionCall: { id: 'call_1', name: 'click_at', args: { x: 4, y: 5 } } },
      result: {
        functionResponse: {
          ...{ id: 'call_1', name: 'click_at', response: { output: 'https://a.test' } },
          parts: [{ inlineData: { mimeType: 'image/png', data: png } }],
        },
      },
      says: png,
    },
  ],
}

const bodies: Readonly<Record<Exclude<ScriptedDialect, 'chat'>, (each: ToolCase) => JsonObject>> = {
  responses: ({ tool, demand, call, result }) => ({
    model: 'public-model',
    max_output_tokens: 60,
    input: [{ role: 'user', content: 'Do it.' }, call, result, { role: 'user', content: 'Again.' }],
    tools: [tool],
    ...demand,
  }),
  messages: ({ tool, demand, call, result }) => ({
    model: 'public-model',
    max_tokens: 60,
    messages: [
      { role: 'user', content: 'Do it.' },
      { role: 'assistant', content: [call] },
      { role: 'user', content: [result, { type: 'text', text: 'Again.' }] },
    ],
    tools: [tool],
    ...demand,
  }),
  gemini: ({ tool, demand, call, result }) => ({
    contents: [
      { role: 'user', parts: [{ text: 'Do it.' }] },
      { role: 'model', parts: [call] },
      { role: 'user', parts: [result, { text: 'Again.' }] },
    ],
    tools: [tool],
    ...demand,
  }),
}

/** The calls of an answer for a client. */
const callsIn: Readonly<Record<Exclude<ScriptedDialect, 'chat'>, (whole: JsonObject) => JsonObject[]>> = {
  responses: ({ output }) => output as JsonObject[],
  messages: ({ content }) => content as JsonObject[],
  gemini: ({ candidates }) => (candidates as { content: { parts: JsonObject[] } }[])[0]!.content.parts,
}

const triples = Object.entries(cases).flatMap(([client, list]) =>
  list.flatMap(each =>
    servers.map(
      server =>
        [String(each.tool.type ?? 'computerUse'), client, server, each] as [
          string,
          keyof typeof cases,
          Dialect,
          ToolCase,
        ],
    ),
  ),
)

/** The declarations of functions in a body of any dialect, by name. */
function functionsIn(body: JsonObject): Map<string, JsonObject> {
  const found = new Map<string, JsonObject>()
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) visit(item)
    if (!isJsonObject(value)) return
    const { name, parameters, input_schema: input, parametersJsonSchema, inputSchema } = value
    const schema = parameters ?? input ?? parametersJsonSchema ?? (isJsonObject(inputSchema) ? inputSchema.json : null)
    if (typeof name === 'string' && isJsonObject(schema)) found.set(name, schema)
    else for (const inner of Object.values(value)) visit(inner)
  }
  visit(body.tools ?? body.toolConfig)
  return found
}

const streams = (job: ChatJob, client: ScriptedDialect, parts: ReturnType<typeof streamParts>): string => {
  const encoder = crossingClients[client].encoder(envelope, job)
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  const pieces = parts.map(part => (typeof part === 'string' ? encoder.text(part) : encoder.chunk(part)))
  return pieces.join('') + encoder.end(usage)
}

/** The answer of a server of the client's dialect, as its vendor writes it. */
function nativeAnswer(call: JsonObject): { whole: string; stream: string } {
  const item = { id: 'item_1', ...call }
  const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
  const response = { id: 'resp_1', object: 'response', status: 'completed', model: 'm', output: [item], usage }
  const events = [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress' } },
    { type: 'response.shell_call_command.delta', output_index: 0, command_index: 0, delta: 'ls' },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response },
  ]
  const stream = events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  return { whole: JSON.stringify(response), stream }
}

describe.each(triples)('the tool %s of %s at a server of %s', (_, client, server, each) => {
  const clientOf = crossingClients[client]
  const request = bodies[client](each)
  const answer = { calls: [{ id: 'call_1', name: each.name, args: each.args }] }
  const own = client === 'responses' && server === 'responses' ? nativeAnswer(each.call) : null
  const head = { model: 'm', stream: false }

  it('is offered and demanded, and its earlier call keeps its result', () => {
    const { body, dropped } = ask(clientOf.job({ ...request, ...(client !== 'gemini' && head) }), offerFor(server))
    expect(dropped.filter(field => field.startsWith('tool'))).toEqual([])
    const text = JSON.stringify(body)
    expect(text).toContain(each.says)
    // Google pairs by names as well.
    if (server !== 'gemini') expect(text.split('call_1').length).toBeGreaterThan(2)
    if (server === client) {
      expect(body.tools).toEqual([each.tool])
      return
    }
    const schema = functionsIn(body).get(each.name)!
    expect(schema).toMatchObject({ type: 'object', properties: expect.any(Object) })
    expect(new Ajv({ strict: false }).validate(schema, each.args)).toBe(true)
    // It is demanded by its name where the dialect has a place for one.
    const chosen = JSON.stringify(body.tool_choice ?? body.toolConfig)
    if (each.name !== 'local_shell') expect(chosen).toContain(`"${each.name}"`)
  })

  it('is called in the form of the client, whole', () => {
    const job = clientOf.job({ ...request, ...(client !== 'gemini' && head) })
    const { reader } = ask(job, offerFor(server))
    // The history has a call of the same id, so the new one gets another.
    const completion = wholeAnswer(server, reader, own?.whole ?? answer)
    const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
    const [call] = callsIn[client](JSON.parse(clientOf.whole(completion, usage, job)))
    expectCall(call!, each.call)
  })

  it('is called in the form of the client, streamed', () => {
    const job = clientOf.job({ ...request, stream: true })
    const { reader } = ask(job, offerFor(server))
    const text = streams(job, client, streamParts(server, reader, own?.stream ?? answer))
    const decoder = new SseDecoder(1e6, uncounted)
    const events = [...decoder.push(Buffer.from(text)), ...decoder.end()]
    if (client !== 'responses') {
      const [start, ...written] = clientOf.readEvents(events).filter(({ kind }) => kind.startsWith('tool_'))
      expect(start).toMatchObject({ kind: 'tool_start', name: each.name })
      const args = written.map(event => ('text' in event ? event.text : '')).join('')
      expect(JSON.parse(args)).toEqual(each.args)
      return
    }
    const sent = events.map(({ data }) => JSON.parse(data) as JsonObject)
    const done = sent.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item as JsonObject)
    expectCall(done[0]!, each.call)
    const between = sent.slice(3, -2).map(({ type }) => type)
    expect(between).toEqual(each.events ?? [])
    expect(sent.at(-1)).toMatchObject({ type: 'response.completed', response: { output: [done[0]] } })
    expect(sent.map(event => event.sequence_number)).toEqual(sent.map((_event, index) => index))
  })
})

function expectCall(call: JsonObject, expected: JsonObject): void {
  const { call_id: _, id: _id, functionCall, ...fields } = expected
  expect(call).toMatchObject(fields)
  if (isJsonObject(functionCall)) {
    const { id: _call, ...rest } = functionCall
    expect(call.functionCall).toMatchObject(rest)
  }
}

describe.each(servers)('a shell with a function of its name at a server of %s', server => {
  const input = [
    { role: 'user', content: 'Look.' },
    { type: 'shell_call', call_id: 'call_1', status: 'completed', action: { commands: ['ls'] } },
    { type: 'shell_call_output', call_id: 'call_1', output: [] },
    { type: 'function_call', call_id: 'call_2', name: 'shell', arguments: '{"at":"sea"}' },
    { type: 'function_call_output', call_id: 'call_2', output: 'a ship' },
  ]
  const parameters = { type: 'object', properties: { at: { type: 'string' } } }
  const tools = [{ type: 'shell' }, { type: 'function', name: 'shell', parameters }]
  const request = { model: 'm', input, tools, tool_choice: { type: 'shell' } }
  const job = crossingClients.responses.job({ ...request, stream: false })
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }

  it('is another function', () => {
    const { body, reader } = ask(job, offerFor(server))
    if (server === 'responses') {
      expect(body.tools).toMatchObject(tools)
      const call = { type: 'shell_call', call_id: 'call_3', status: 'completed', action: { commands: ['pwd'] } }
      const [got] = callsIn.responses(
        JSON.parse(crossingClients.responses.whole(wholeAnswer(server, reader, nativeAnswer(call).whole), usage, job)),
      )
      expect(got).toMatchObject({ type: 'shell_call', action: { commands: ['pwd'] } })
    } else {
      const functions = functionsIn(body)
      expect([...functions.keys()].sort()).toEqual(['shell', 'shell_tool'])
      expect(functions.get('shell')!.properties).toHaveProperty('at')
      expect(functions.get('shell_tool')!.properties).toHaveProperty('commands')
      expect(JSON.stringify(body.tool_choice ?? body.toolConfig)).toContain('"shell_tool"')
      // Both earlier calls keep their functions.
      const text = JSON.stringify(body.messages ?? body.contents)
      expect(text.indexOf('"shell_tool"')).toBeLessThan(text.indexOf('"shell"'))
      expect(text.indexOf('"shell_tool"')).toBeGreaterThan(0)
    }
    for (const [name, args, expected] of [
      ...(server === 'responses' ? [] : [['shell_tool', { commands: ['pwd'] }, { type: 'shell_call' }] as const]),
      ['shell', { at: 'sea' }, { type: 'function_call', name: 'shell', arguments: '{"at":"sea"}' }] as const,
    ]) {
      const answer = { calls: [{ id: 'call_9', name, args }] }
      const whole = crossingClients.responses.whole(wholeAnswer(server, reader, answer), usage, job)
      expect(callsIn.responses(JSON.parse(whole))[0]).toMatchObject(expected)
      const streamed = crossingClients.responses.job({ ...request, stream: true })
      const text = streams(streamed, 'responses', streamParts(server, ask(streamed, offerFor(server)).reader, answer))
      expect(text).toContain(`"type":"${expected.type}"`)
    }
  })
})

describe('a tool of a client', () => {
  it.each<[string, keyof typeof cases, JsonObject]>([
    ['shell', 'responses', { type: 'shell', environment: { type: 'container_auto' } }],
    ['web_search', 'responses', { type: 'web_search' }],
    ['googleSearch', 'gemini', { googleSearch: {} }],
  ])('that its vendor would run (%s) is left out and named', (type, client, tool) => {
    const request = bodies[client]({ ...cases[client][0]!, tool, demand: {} })
    for (const server of servers) {
      const { body, dropped } = ask(crossingClients[client].job(request), offerFor(server))
      expect(dropped).toContain(`tools.${type}`)
      expect(JSON.stringify(body.tools ?? [])).not.toContain('container_auto')
    }
  })

  it.each<[string, keyof typeof cases, ToolCase]>([
    ['computer', 'responses', ofResponses[3]!],
    ['computer_use_preview', 'responses', ofResponses[4]!],
    ['computer_20250124', 'messages', cases.messages.at(-1)!],
    ['computerUse', 'gemini', cases.gemini[0]!],
  ])(
    'that returns pictures (%s) excludes models that read only text, and the refusal names it',
    (type, client, each) => {
      const job = crossingClients[client].job(bodies[client](each))
      for (const server of servers) {
        const offer = { ...offerFor(server), features: new Set(['chat', 'tools'] as const) }
        const { eligible: served, excluded } = eligible([offer], job, healthOf())
        expect([served, excluded.map(({ reason }) => reason)]).toEqual([[], ['feature_missing']])
        expect(explainExclusions(excluded, [offer], job).message).toContain(type)
        const seeing = { ...offer, features: new Set(['chat', 'tools', 'images'] as const) }
        expect(eligible([seeing], job, healthOf()).eligible).toEqual([seeing])
      }
    },
  )

  it.each<[string, keyof typeof cases, JsonObject]>([
    ['browser_toolset_20260801', 'messages', { type: 'browser_toolset_20260801' }],
    ['computerUse', 'gemini', { computerUse: { environment: 'ENVIRONMENT_MOBILE' } }],
  ])(
    'that no other model can get (%s) is refused by its name without a server of its dialect',
    (type, client, tool) => {
      const job = crossingClients[client].job(bodies[client]({ ...cases[client][0]!, tool, demand: {} }))
      const offer = offerAt('https://example.com/v1')
      const { excluded } = eligible([offer], job, healthOf())
      expect(explainExclusions(excluded, [offer], job)).toMatchObject({ code: 'feature_not_supported' })
      expect(explainExclusions(excluded, [offer], job).message).toContain(`"${type}"`)
      expect(JSON.stringify(ask(job, offerFor(client)).body.tools)).toContain(JSON.stringify(tool).slice(1, -1))
    },
  )

  it('of a vendor is refused by its name in chat, which has no place for it', () => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }], tools: [{ type: 'apply_patch' }] }
    expect(() => crossingClients.chat.job(body)).toThrow('tools[0].type')
  })
})

/** The shapes of the calls in OpenAI's SDK. */
const itemSchema: Readonly<Record<ClientToolType, object>> = {
  apply_patch: shape({
    operation: {
      ...shape({ type: { enum: ['create_file', 'update_file', 'delete_file'] }, path: { type: 'string' } }),
      if: { properties: { type: { const: 'delete_file' } } },
      else: { required: ['diff'] },
    },
  }),
  shell: shape({
    action: shape({
      commands: { type: 'array', items: { type: 'string' } },
      timeout_ms: { type: ['number', 'null'] },
      max_output_length: { type: ['number', 'null'] },
    }),
  }),
  local_shell: shape({
    action: shape({ type: { const: 'exec' }, command: { type: 'array', items: { type: 'string' } }, env: {} }),
  }),
  computer: shape({
    actions: { type: 'array', minItems: 1, items: shape({ type: { type: 'string' } }) },
    pending_safety_checks: { type: 'array' },
  }),
  computer_use_preview: shape({
    action: shape({ type: { type: 'string' } }),
    pending_safety_checks: { type: 'array' },
  }),
}

function shape(properties: JsonObject) {
  return { type: 'object', properties, required: Object.keys(properties) }
}

describe.each(Object.keys(itemSchema) as ClientToolType[])('a call of %s', type => {
  const validate = new Ajv({ strict: false }).compile(itemSchema[type])
  const { parameters } = clientTool({ type })!

  it('is an item with all its fields, whatever the model writes', () => {
    const text = fc.oneof(
      fc.json(),
      fc.string(),
      fc.json().map(whole => whole.slice(0, -2)),
    )
    fc.assert(
      fc.property(text, written => {
        expect(validate(clientCallItem(type, written).content)).toBe(true)
      }),
    )
  })

  it('is the same after it was an item', () => {
    const isValid = new Ajv({ strict: false }).compile(parameters!)
    fc.assert(
      fc.property(
        schemaArbitrary(parameters as JsonSchema, () => ({})),
        args => {
          // Without a path or an action there is nothing to do.
          const { path, actions, type: kind } = args as { path?: unknown; actions?: unknown[]; type?: unknown }
          fc.pre(isValid(args) && path !== '' && actions?.length !== 0)
          const { type: itemType, content } = clientCallItem(type, JSON.stringify(args))
          const again = JSON.parse(functionCallOf({ type: itemType, ...content }).arguments) as JsonObject
          const isDelete = type === 'apply_patch' && kind === 'delete_file'
          expect(again).toMatchObject(isDelete ? { type: kind, path } : (args as JsonObject))
        },
      ),
    )
  })
})

it.each<[ClientToolType, string, JsonObject]>([
  ['shell', '{"command":"ls"}', { action: { commands: ['ls'] } }],
  ['shell', '{"command":["git","status"]}', { action: { commands: ['git status'] } }],
  ['shell', '{"commands":"ls"}', { action: { commands: ['ls'] } }],
  ['shell', 'rm -r', { action: { commands: [] } }],
  ['local_shell', '{"command":"ls"}', { action: { command: ['bash', '-lc', 'ls'] } }],
  ['apply_patch', JSON.stringify({ operation: patch }), { operation: patch }],
  ['apply_patch', '{"path":"a"}', { operation: { type: 'update_file', path: 'a', diff: '' } }],
  ['apply_patch', '{"type":"delete_file"}', { operation: { type: 'update_file', path: '' } }],
  ['computer', JSON.stringify(click), { actions: [click] }],
  ['computer', '{"actions":[]}', { actions: [{ type: 'screenshot' }] }],
  ['computer_use_preview', JSON.stringify({ actions: [click] }), { action: click }],
  ['computer_use_preview', '{"type":"explode"}', { action: { type: 'screenshot' } }],
])('a call of %s with %s is read as it is meant, or does nothing', (type, text, content) => {
  expect(clientCallItem(type, text).content).toMatchObject(content)
})
