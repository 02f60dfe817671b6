import { describe, expect, it } from 'vitest'
import { wrapSeal } from '../seal.ts'
import { ToolNames } from '../tool-names.ts'
import { parseResponsesRequest } from './responses-request.ts'
import { responsesRequestBody } from './upstream-request.ts'

const parse = (body: object) => parseResponsesRequest(Buffer.from(JSON.stringify({ model: 'demo', ...body })))
const conversationOf = (input: unknown, more: object = {}) => parse({ input, ...more }).conversation()
const refusal = (body: object) => {
  try {
    parse({ input: 'Hi', ...body })
  } catch (error) {
    return error
  }
  return null
}

/** The body that Codex sends for a model that it does not know. */
const codex = {
  model: 'demo',
  input: [
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'You are a coding agent.' }] },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: '<environment_context/>' }] },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'List the files.' }] },
    {
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'I should run ls.' }],
      content: null,
      encrypted_content: 'gAAAA=',
    },
    { type: 'function_call', name: 'spawn', namespace: 'multi_agent_v1', arguments: '{"a":1}', call_id: 'call_1' },
    { type: 'custom_tool_call', name: 'exec', input: 'ls', call_id: 'call_2', status: 'completed' },
    { type: 'function_call_output', call_id: 'call_1', output: 'spawned' },
    {
      type: 'custom_tool_call_output',
      call_id: 'call_2',
      output: [
        { type: 'input_text', text: 'a.txt' },
        { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' },
      ],
    },
  ],
  tools: [
    { type: 'function', name: 'shell', description: 'Runs', strict: false, parameters: { type: 'object' } },
    {
      type: 'namespace',
      name: 'multi_agent_v1',
      description: 'Agents',
      tools: [{ type: 'function', name: 'spawn', strict: false, parameters: { type: 'object' } }],
    },
    { type: 'custom', name: 'exec', format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' } },
    { type: 'web_search', external_web_access: true },
  ],
  tool_choice: 'auto',
  parallel_tool_calls: true,
  reasoning: { effort: 'medium', summary: 'auto' },
  store: false,
  stream: true,
  include: ['reasoning.encrypted_content'],
  prompt_cache_key: 'session-1',
  text: { verbosity: 'low' },
  client_metadata: { 'x-codex-installation-id': 'a' },
}

describe('a request of Codex', () => {
  const { facts, body: forward, settings, ...codexRequest } = parse(codex)
  const conversation = codexRequest.conversation()

  it('becomes a conversation', () => {
    expect(conversation).toMatchObject({
      system: [{ kind: 'text', text: 'You are a coding agent.' }],
      turns: [
        { role: 'user', parts: [{ text: '<environment_context/>' }, { text: 'List the files.' }] },
        {
          role: 'assistant',
          parts: [
            { kind: 'reasoning', text: 'I should run ls.', seal: { family: 'openai', data: 'gAAAA=' } },
            { kind: 'tool_call', id: 'call_1', name: 'spawn', namespace: 'multi_agent_v1', toolKind: 'function' },
            { kind: 'tool_call', id: 'call_2', name: 'exec', toolKind: 'custom', arguments: 'ls' },
          ],
        },
        {
          role: 'user',
          parts: [
            { kind: 'tool_result', callId: 'call_1', content: [{ text: 'spawned' }] },
            {
              kind: 'tool_result',
              callId: 'call_2',
              toolKind: 'custom',
              content: [{ text: 'a.txt' }, { kind: 'image', source: { mediaType: 'image/png', base64: 'AAAA' } }],
            },
          ],
        },
      ],
      reasoning: { effort: 'medium', isShown: true },
      verbosity: 'low',
      cacheKey: 'session-1',
    })
    expect(conversation.tools.map(({ name }) => name)).toEqual(['shell', 'spawn', 'exec'])
  })

  it('has no limit, is clamped, and names what no server gets', () => {
    expect(facts).toMatchObject({
      maxTokens: null,
      isLimitOpen: true,
      onInsufficient: 'clamp',
      stream: true,
      messageCount: 8,
      droppedFields: ['tools.web_search'],
    })
    expect([...facts.features]).toEqual(['tools', 'images'])
    expect(facts.inputTokensBound).toBeGreaterThan(facts.mediaTokensBound + facts.promptTextBytes)
    expect(facts.promptText()).toContain('List the files.')
  })

  it('reaches an upstream of its own dialect without hosted tools, and is never stored', () => {
    const { model: _, stream: __, client_metadata: ___, ...rest } = codex
    expect(forward).toEqual({ ...rest, tools: codex.tools.slice(0, 3), store: false })
  })

  it('is repeated in the answer', () => {
    expect(settings.fields).toMatchObject({
      instructions: null,
      tool_choice: 'auto',
      reasoning: { effort: 'medium', summary: 'auto' },
      text: { format: { type: 'text' }, verbosity: 'low' },
      store: false,
    })
  })
})

describe('what needs state', () => {
  it.each([
    ['previous_response_id', { previous_response_id: 'resp_1' }],
    ['conversation', { conversation: { id: 'conv_1' } }],
    ['prompt', { prompt: { id: 'pmpt_1' } }],
    ['background', { background: true }],
    ['input[0]', { input: [{ type: 'item_reference', id: 'msg_1' }] }],
    ['input[0].content[0].file_id', { input: [image({ file_id: 'file_1', image_url: 'data:image/png;base64,AA' })] }],
    ['input[0].type', { input: [{ type: 'compaction_trigger' }] }],
  ])('is refused: %s', (param, body) => {
    expect(refusal(body)).toMatchObject({ code: 'invalid_value', param })
  })

  it('says what to do instead', () => {
    expect(refusal({ previous_response_id: 'resp_1' })).toMatchObject({
      message:
        '"previous_response_id" must be left out: nothing is stored here; send the whole conversation in "input"; got "resp_1".',
    })
  })

  it('is accepted where it has no effect', () => {
    const more = { store: true, background: false, previous_response_id: null, metadata: { a: 'b' } }
    expect(parse({ input: 'Hi', ...more }).settings.fields).toMatchObject({ store: false, metadata: { a: 'b' } })
  })

  it('ignores references to reasoning', () => {
    const input = [
      { role: 'user', content: 'Hi' },
      { type: 'item_reference', id: 'rs_1' },
    ]
    expect(conversationOf(input).turns).toEqual([{ role: 'user', parts: [{ kind: 'text', text: 'Hi' }] }])
    expect(parse({ input }).body.input).toEqual([input[0]])
  })
})

describe('invalid input', () => {
  it.each([
    ['input', {}, 'missing_parameter'],
    ['input', { input: [] }, 'invalid_value'],
    ['input', { input: 7 }, 'invalid_value'],
    ['input[0].role', { input: [{ role: 'robot', content: 'Hi' }] }, 'invalid_value'],
    ['input[0].content', { input: [{ role: 'user' }] }, 'missing_parameter'],
    ['input[0].content[0].type', { input: [{ role: 'user', content: [{ type: 'video' }] }] }, 'invalid_value'],
    ['input[0].content[0].image_url', { input: [image({ image_url: 'http://127.0.0.1/' })] }, 'invalid_value'],
    ['input[0].content[0]', { input: [{ role: 'user', content: [{ type: 'input_file' }] }] }, 'invalid_value'],
    ['input[0].arguments', { input: [{ type: 'function_call', call_id: 'a', name: 'b' }] }, 'missing_parameter'],
    ['tools[0].name', { input: 'Hi', tools: [{ type: 'function' }] }, 'missing_parameter'],
    ['tools[0].tools[0].type', namespaceOf({ type: 'namespace', name: 'b', tools: [] }), 'invalid_value'],
    ['reasoning.effort', { input: 'Hi', reasoning: { effort: 'enormous' } }, 'invalid_value'],
    ['max_output_tokens', { input: 'Hi', max_output_tokens: 0 }, 'invalid_value'],
    ['tier', { input: 'Hi', tier: 'best' }, 'invalid_value'],
  ])('%s is refused with its place', (param, body, code) => {
    expect(() => parse(body)).toThrow(expect.objectContaining({ code, param }))
  })
})

describe('tools', () => {
  const hosted = { type: 'web_search' }
  const read = { type: 'function', name: 'read', parameters: null }
  const write = { type: 'function', name: 'write', parameters: null }

  it.each([
    ['required', 'required'],
    ['a hosted type', { type: 'web_search' }],
    ['an MCP server', { type: 'mcp', server_label: 'a' }],
  ])('that a server would run are refused when the choice is %s', (_, tool_choice) => {
    expect(refusal({ tools: [read, hosted], tool_choice })).toMatchObject({ param: 'tool_choice' })
  })

  it('are limited to the allowed ones', () => {
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'write' }] }
    const { tools, toolChoice } = conversationOf('Hi', { tools: [read, write], tool_choice: allowed })
    expect(tools.map(({ name }) => name)).toEqual(['write'])
    expect(toolChoice).toEqual({ kind: 'must' })
  })

  it('may be chosen by name, in their namespace', () => {
    const tools = [{ type: 'namespace', name: 'files', description: '', tools: [read] }, write]
    expect(conversationOf('Hi', { tools, tool_choice: { type: 'function', name: 'read' } }).toolChoice).toEqual({
      kind: 'only',
      name: 'read',
      namespace: 'files',
    })
    expect(refusal({ tools, tool_choice: { type: 'function', name: 'delete' } })).toMatchObject({
      param: 'tool_choice.name',
    })
  })

  it('come from items too, once each', () => {
    const exec = { type: 'namespace', name: 'shell', description: '', tools: [{ type: 'custom', name: 'exec' }] }
    const input = [
      { type: 'additional_tools', role: 'developer', tools: [exec] },
      { role: 'user', content: 'Hi' },
      { type: 'tool_search_call', call_id: 'call_1', execution: 'client', arguments: { query: 'read' } },
      { type: 'tool_search_output', call_id: 'call_1', execution: 'client', tools: [read, exec] },
    ]
    const { settings, ...request } = parse({ input, tools: [{ type: 'tool_search', execution: 'client' }] })
    const conversation = request.conversation()
    expect(conversation.tools.map(({ kind, namespace, name }) => [kind, namespace, name])).toEqual([
      ['function', undefined, 'tool_search'],
      ['custom', 'shell', 'exec'],
      ['function', undefined, 'read'],
    ])
    expect(conversation.turns[1]!.parts).toMatchObject([{ name: 'tool_search', arguments: '{"query":"read"}' }])
    expect(settings.searchTool).toBe('tool_search')
  })

  it('get flat names for upstreams without namespaces, and their own names back', () => {
    const long = 'x'.repeat(60)
    const tools = [
      { type: 'namespace', name: 'mcp__files', description: '', tools: [read, { ...read, name: long }] },
      { type: 'custom', name: 'exec' },
    ]
    const names = new ToolNames(conversationOf('Hi', { tools }))
    expect(names.named('mcp__files__read')).toEqual({ kind: 'function', name: 'read', namespace: 'mcp__files' })
    expect(names.named('exec')).toEqual({ kind: 'custom', name: 'exec' })
    expect(names.named('other')).toEqual({ kind: 'function', name: 'other' })
  })
})

describe('reasoning for an upstream of the same dialect', () => {
  const summary = [{ type: 'summary_text', text: 'Hm' }]
  const item = (fields: object) => ({ type: 'reasoning', id: 'rs_1', summary, ...fields })
  const forwarded = (fields: object) =>
    (parse({ input: [{ role: 'user', content: 'Hi' }, item(fields)] }).body.input as object[]).slice(1)

  it('stays as it is if OpenAI sealed it, or if it has its full text', () => {
    const own = { encrypted_content: 'gAAAA=' }
    expect(forwarded(own)).toEqual([item(own)])
    const open = { content: [{ type: 'reasoning_text', text: 'Hm' }] }
    expect(forwarded(open)).toEqual([item(open)])
  })

  it('keeps the name of the account that sealed it, which only a server can compare', () => {
    const sealed = { encrypted_content: 'sy1.openai.a1.gAAAA=' }
    expect(forwarded(sealed)).toEqual([item(sealed)])
  })

  it.each([{}, { encrypted_content: 'sy1.text..' }, { encrypted_content: 'sy1.anthropic..sig' }])(
    'is left out if OpenAI cannot read it: %j',
    fields => {
      expect(forwarded(fields)).toEqual([])
    },
  )
})

describe('reasoning', () => {
  const sealed = (encrypted_content: string) =>
    conversationOf([
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content },
    ]).turns[1]!.parts

  it('keeps a seal of its own family, and unwraps one that another family made', () => {
    expect(sealed('gAAAA=')).toEqual([{ kind: 'reasoning', text: '', seal: { family: 'openai', data: 'gAAAA=' } }])
    const seal = { family: 'anthropic', data: 'a.b', account: 'x1', isRedacted: true } as const
    expect(sealed(wrapSeal(seal, 'openai'))).toEqual([{ kind: 'reasoning', text: '', seal }])
    const own = { family: 'openai', data: 'gAAAA=', account: 'x1' } as const
    expect(sealed(wrapSeal(own, 'openai'))).toEqual([{ kind: 'reasoning', text: '', seal: own }])
  })

  it('that OpenAI did not seal does not reach a Responses server', () => {
    const input = [
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm' }], encrypted_content: 'sy1.google..abc' },
      { role: 'assistant', content: 'Yes' },
    ]
    const body = responsesRequestBody(conversationOf(input), { model: 'm', maxTokens: null, stream: true })
    expect(body.input).toEqual([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes' }] },
    ])
  })
})

it('gives calls and results without a partner a stub', () => {
  const input = [
    { type: 'function_call_output', call_id: 'lost', output: 'old' },
    { type: 'function_call', call_id: 'open', name: 'read', arguments: '{}' },
    { role: 'user', content: 'Go on' },
  ]
  const body = responsesRequestBody(conversationOf(input), { model: 'm', maxTokens: 9, stream: true })
  expect(body.input).toMatchObject([
    {
      type: 'message',
      role: 'user',
      content: [{ text: 'The result of the tool call lost, which was removed:' }, { text: 'old' }],
    },
    { type: 'function_call', call_id: 'open' },
    { type: 'function_call_output', call_id: 'open' },
    { type: 'message', role: 'user' },
  ])
})

function image(fields: object): object {
  return { role: 'user', content: [{ type: 'input_image', ...fields }] }
}

function namespaceOf(tool: object): object {
  return { input: 'Hi', tools: [{ type: 'namespace', name: 'a', tools: [tool] }] }
}

it('without a price is not forwarded, and named: longer caches and modes of reasoning', () => {
  const at = (ttl?: string) => ({ prompt_cache_breakpoint: { mode: 'explicit', ...(ttl !== undefined && { ttl }) } })
  const input = (long: string | undefined) => [
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'x', ...at(long) }] },
    { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'y', ...at(long) }] },
  ]
  const { body, facts } = parse({ input: input('12h'), reasoning: { effort: 'low', mode: 'pro' } })
  expect(body).toMatchObject({ input: input(undefined), reasoning: { effort: 'low' } })
  expect(JSON.stringify(body)).not.toMatch(/12h|"pro"/)
  expect(facts.droppedFields).toEqual(['prompt_cache_breakpoint.ttl', 'reasoning.mode'])
  expect(parse({ input: input('30m'), reasoning: { effort: 'low', mode: null } }).facts.droppedFields).toEqual([])
})

it('has no tools that a server would run, wherever they stand', () => {
  const hosted = { type: 'web_search' }
  const look = { type: 'function', name: 'look', parameters: { type: 'object' } }
  const namespace = { type: 'namespace', name: 'n', tools: [look, hosted] }
  const input = [
    { role: 'user', content: 'x' },
    { type: 'additional_tools', tools: [hosted, look, namespace] },
    { type: 'tool_search_call', call_id: 'c', execution: 'client', arguments: {} },
    { type: 'tool_search_output', call_id: 'c', execution: 'client', tools: [hosted, look, namespace] },
  ]
  const { body, facts } = parse({ input, tools: [hosted, namespace] })
  expect(JSON.stringify(body)).not.toContain('web_search')
  const kept = [look, { ...namespace, tools: [look] }]
  expect(body).toMatchObject({ tools: [kept[1]], input: [{}, { tools: kept }, {}, { tools: kept }] })
  expect(facts.droppedFields).toEqual(['tools.web_search'])
})
