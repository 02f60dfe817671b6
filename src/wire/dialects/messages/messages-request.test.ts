import type { MessageCreateParams } from '@anthropic-ai/sdk/resources/messages/messages'
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../../base/domain/errors.ts'
import { wrapSeal } from '../seal.ts'
import { type MessagesRequest, parseMessagesRequest } from './messages-request.ts'

const parse = (body: unknown, isCounting?: boolean): MessagesRequest =>
  parseMessagesRequest(Buffer.from(JSON.stringify(body)), isCounting)

const minimal = { model: 'demo', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }
const withMessage = (content: unknown, role = 'user') => ({ ...minimal, messages: [{ role, content }] })

function refusal(body: unknown): [code: string, param: string | null] {
  try {
    parse(body)
  } catch (error) {
    if (error instanceof ApiError) return [error.code, error.param]
    throw error
  }
  throw new Error('The request was not refused.')
}

const long = 'x'.repeat(10_000)

/** What Claude Code sends, shortened. */
const agentRequest = {
  model: 'claude-fable-5-2',
  max_tokens: 32_000,
  stream: true,
  system: [
    { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1.330; cch=4af1;' },
    { type: 'text', text: 'You are an agent.', cache_control: { type: 'ephemeral', ttl: '1h' } },
  ],
  messages: [
    { role: 'user', content: [{ type: 'text', text: 'Read a.txt', cache_control: { type: 'ephemeral' } }] },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: '', signature: 'EqQBCgIYAhIM' },
        { type: 'redacted_thinking', data: 'EmwKAhgBEgy3' },
        { type: 'text', text: 'Reading.' },
        { type: 'tool_use', id: 'toolu_1', name: 'Read', input: { path: 'a.txt' } },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'toolu_1',
          is_error: true,
          content: [
            { type: 'text', text: 'no such file' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
          ],
        },
        { type: 'text', text: 'Try b.txt' },
      ],
    },
    { role: 'system', content: 'Plan mode is on.' },
  ],
  tools: [
    { name: 'Read', description: 'Reads a file.', input_schema: { type: 'object' }, eager_input_streaming: true },
    { type: 'web_search_20250305', name: 'web_search', max_uses: 8 },
  ],
  tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  thinking: { type: 'adaptive', display: 'omitted' },
  output_config: { effort: 'high' },
  metadata: { user_id: 'user_1' },
} satisfies MessageCreateParams

describe('a request of an agent', () => {
  const request = parse({
    ...agentRequest,
    context_management: { edits: [{ type: 'clear_thinking_20251015' }, { type: 'compact_20260112' }] },
    fallbacks: [{ model: 'claude-opus-5-5' }],
  })

  it('gives the facts that admission needs', () => {
    expect(request.facts).toMatchObject({
      model: 'claude-fable-5-2',
      maxTokens: 32_000,
      stream: true,
      onInsufficient: 'clamp',
      choices: 1,
      hasStop: false,
      messageCount: 4,
      mediaTokensBound: 2_048,
    })
    expect([...request.facts.features]).toEqual(['tools', 'images'])
    expect(request.reasoningDisplay).toBe('omitted')
    expect(request.facts.inputTokensBound).toBeGreaterThan(request.facts.promptTextBytes + 2_048)
  })

  it('loses what has no price, and names it', () => {
    expect(request.facts.droppedFields).toEqual(['tools.web_search_20250305', 'fallbacks', 'context_management.edits'])
    expect(request.body.tools).toEqual([agentRequest.tools[0]])
    expect(request.body.context_management).toEqual({ edits: [{ type: 'clear_thinking_20251015' }] })
  })

  it('loses keys of its settings that the gateway does not know, and names them', () => {
    const { body, facts } = parse({
      ...minimal,
      output_config: { effort: 'high', task_budget: { type: 'tokens', total: 20_000 } },
      thinking: { type: 'adaptive', display: 'omitted', notes: 'x'.repeat(1_000) },
      metadata: { user_id: 'user_1', notes: 'x'.repeat(1_000), nothing: null },
    })
    expect(body).toMatchObject({ output_config: { effort: 'high' }, metadata: { user_id: 'user_1' } })
    expect(facts.droppedFields).toEqual(['output_config.task_budget', 'thinking.notes', 'metadata.notes'])
    expect(JSON.stringify(body)).not.toMatch(/task_budget|notes|nothing/)
  })

  it('keeps the rest of its body for servers of the same dialect', () => {
    const { model: _, max_tokens: __, stream: ___, tools, ...rest } = agentRequest
    expect(request.body).toMatchObject(rest)
    expect(Object.keys(request.body)).not.toContain('model')
  })

  it('becomes a conversation without the billing header', () => {
    expect(request.conversation()).toEqual({
      system: [{ kind: 'text', text: 'You are an agent.', cache: 'long' }],
      turns: [
        { role: 'user', parts: [{ kind: 'text', text: 'Read a.txt', cache: 'short' }] },
        {
          role: 'assistant',
          parts: [
            { kind: 'reasoning', text: '', seal: { family: 'anthropic', data: 'EqQBCgIYAhIM' } },
            { kind: 'reasoning', text: '', seal: { family: 'anthropic', data: 'EmwKAhgBEgy3', isRedacted: true } },
            { kind: 'text', text: 'Reading.' },
            { kind: 'tool_call', id: 'toolu_1', name: 'Read', toolKind: 'function', arguments: '{"path":"a.txt"}' },
          ],
        },
        {
          role: 'user',
          parts: [
            {
              kind: 'tool_result',
              callId: 'toolu_1',
              toolKind: 'function',
              content: [
                { kind: 'text', text: 'no such file' },
                { kind: 'image', source: { mediaType: 'image/png', base64: 'iVBORw0KGgo=' } },
              ],
              isError: true,
            },
            { kind: 'text', text: 'Try b.txt' },
          ],
        },
        { role: 'system', parts: [{ kind: 'text', text: 'Plan mode is on.' }] },
      ],
      tools: [
        { kind: 'function', name: 'Read', description: 'Reads a file.', parameters: { type: 'object' }, strict: null },
      ],
      toolChoice: { kind: 'auto' },
      parallelToolCalls: false,
      maxOutputTokens: null,
      sampling: {
        temperature: null,
        topP: null,
        topK: null,
        presencePenalty: null,
        frequencyPenalty: null,
        seed: null,
        stop: [],
      },
      reasoning: { effort: 'high', isShown: false },
      outputFormat: null,
      verbosity: null,
      cacheKey: null,
      endUser: 'user_1',
    })
    expect(request.conversation()).toBe(request.conversation())
  })
})

describe('a request', () => {
  it.each<[name: string, body: unknown]>([
    ['unknown fields', { ...minimal, thread: null, a_new_field: { b: 1 } }],
    ['unknown blocks', withMessage([{ type: 'a_new_block', x: 1 }])],
    [
      'blocks of tools that a server ran',
      withMessage([{ type: 'server_tool_use', id: 's', name: 'web_search', input: {} }]),
    ],
    ['an unknown kind of thinking', { ...minimal, thinking: { type: 'between_tools' } }],
    ['null for what it leaves out', { ...minimal, stop_sequences: null, tools: null, system: null, metadata: null }],
    ['a tool that the model knows', { ...minimal, tools: [{ type: 'memory_20250818', name: 'memory' }] }],
  ])('may have %s', (_, body) => expect(() => parse(body)).not.toThrow())

  it.each<[name: string, body: unknown, code: string, param: string | null]>([
    ['no model', { ...minimal, model: undefined }, 'missing_parameter', 'model'],
    ['no limit', { ...minimal, max_tokens: undefined }, 'missing_parameter', 'max_tokens'],
    ['a limit of 0', { ...minimal, max_tokens: 0 }, 'invalid_value', 'max_tokens'],
    ['no messages', { ...minimal, messages: undefined }, 'missing_parameter', 'messages'],
    ['an empty list', { ...minimal, messages: [] }, 'invalid_value', 'messages'],
    [
      'a message without content',
      { ...minimal, messages: [{ role: 'user' }] },
      'missing_parameter',
      'messages[0].content',
    ],
    ['an unknown role', withMessage('x', 'tool'), 'invalid_value', 'messages[0].role'],
    ['a text block without text', withMessage([{ type: 'text' }]), 'missing_parameter', 'messages[0].content[0].text'],
    ['null as a block', withMessage([null]), 'invalid_value', 'messages[0].content[0]'],
    [
      'an image of the local network',
      withMessage([{ type: 'image', source: { type: 'url', url: 'https://127.0.0.1/a.png' } }]),
      'invalid_value',
      'messages[0].content[0].source.url',
    ],
    [
      'a file of the operator',
      withMessage([{ type: 'document', source: { type: 'file', file_id: 'file_1' } }]),
      'invalid_value',
      'messages[0].content[0].source.type',
    ],
    [
      'a broken block in a document',
      withMessage([{ type: 'document', source: { type: 'content', content: [null] } }]),
      'invalid_value',
      'messages[0].content[0].source.content[0]',
    ],
    [
      'a broken block in a result',
      withMessage([{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'image' }] }]),
      'missing_parameter',
      'messages[0].content[0].content[0].source',
    ],
    ['a wrong effort', { ...minimal, output_config: { effort: 'huge' } }, 'invalid_value', 'output_config.effort'],
    ['a wrong tier', { ...minimal, tier: 'fast' }, 'invalid_value', 'tier'],
    [
      'a demanded search',
      { ...minimal, tools: [{ type: 'web_search_20250305', name: 'web_search' }], tool_choice: { type: 'any' } },
      'invalid_value',
      'tools[0].type',
    ],
    [
      'a search that the choice names',
      {
        ...minimal,
        tools: [
          { name: 'f', input_schema: {} },
          { type: 'web_search_20250305', name: 'web_search' },
        ],
        tool_choice: { type: 'tool', name: 'web_search' },
      },
      'invalid_value',
      'tools[1].type',
    ],
  ])('is refused with %s', (_, body, code, param) => expect(refusal(body)).toEqual([code, param]))

  it('has the routing constraints of the gateway', () => {
    const { facts } = parse({
      ...minimal,
      tier: 'cheapest',
      privacy_mode: true,
      max_cost_usd: 0.5,
      on_insufficient: 'refuse',
    })
    expect(facts).toMatchObject({
      constraints: { serviceTier: 'cheapest', privacyMode: true },
      maxCostNanos: 500_000_000n,
      onInsufficient: 'refuse',
    })
  })

  it('needs no limit when tokens are counted', () => {
    const { facts } = parse({ model: 'demo', messages: minimal.messages, system: 'Be brief.' }, true)
    expect(facts.maxTokens).toBeNull()
    expect(facts.promptText()).toBe('Be brief.\nHello')
  })

  it.each<[feature: string, body: object]>([
    [
      'documents',
      withMessage([{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AA' } }]),
    ],
    [
      'citations',
      withMessage([{ type: 'document', source: { type: 'text', data: 'x' }, citations: { enabled: true } }]),
    ],
    [
      'images',
      withMessage([
        {
          type: 'tool_result',
          tool_use_id: 't',
          content: [{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }],
        },
      ]),
    ],
    ['json_schema', { ...minimal, output_config: { format: { type: 'json_schema', schema: {} } } }],
    ['native_tools', { ...minimal, tools: [{ type: 'browser_toolset_20260801' }] }],
    ['images', { ...minimal, tools: [{ type: 'computer_20251124', name: 'computer' }] }],
  ])('with %s needs an offer that has them', (feature, body) => {
    expect([...parse(body).facts.features]).toContain(feature)
  })

  it('counts reasoning that a seal hides', () => {
    const thought = 'All work and no play. '.repeat(20)
    const hidden = parse(
      withMessage(
        [{ type: 'thinking', thinking: '', signature: wrapSeal({ family: 'text', data: '' }, 'anthropic', thought) }],
        'assistant',
      ),
    )
    expect(hidden.facts.promptTextBytes).toBe(Buffer.byteLength(thought))
    expect(hidden.conversation().turns[0]!.parts).toEqual([
      { kind: 'reasoning', text: thought, seal: { family: 'text', data: '' } },
    ])
  })

  it.each<[name: string, body: object]>([
    ['a long id of a user', { ...minimal, metadata: { user_id: long } }],
    ['an unknown kind of thinking', { ...minimal, thinking: { type: long } }],
    ['the schema of the answer', { ...minimal, output_config: { format: { type: 'json_schema', title: long } } }],
    ['an unknown field of a message', { ...minimal, messages: [{ role: 'user', content: 'Hi', note: long }] }],
    ['the id of a call', withMessage([{ type: 'tool_use', id: long, name: 'f', input: {} }], 'assistant')],
    ['the id of a result', withMessage([{ type: 'tool_result', tool_use_id: long }])],
    ['the caller of a tool', withMessage([{ type: 'tool_use', id: 'c', name: 'f', input: {}, caller: { id: long } }])],
    ['a result in an object', withMessage([{ type: 'bash_tool_result', content: { stdout: long } }])],
    ['a text in a list of an unknown block', withMessage([{ type: 'a_new_block', content: [long] }])],
    [
      'an unknown field of a source',
      withMessage([{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png', note: long } }]),
    ],
    ['a signature that is no text', withMessage([{ type: 'a_new_block', signature: { data: long } }])],
    ['data that is no text', withMessage([{ type: 'a_new_block', source: { type: 'base64', data: [long, long] } }])],
  ])('is held for with %s', (_, body) => {
    const request = parse(body)
    // Its server gets the text, and could count each byte of it as one token.
    expect(JSON.stringify(request.body)).toContain(long)
    expect(request.facts.inputTokensBound).toBeGreaterThan(long.length / 2)
  })

  it('may have the schema of its answer in the field of the beta, which servers of messages get in the newer one', () => {
    const format = { type: 'json_schema', schema: { type: 'object' } }
    const { body, conversation } = parse({ ...minimal, output_format: format, output_config: { effort: 'low' } })
    expect(body.output_config).toEqual({ effort: 'low', format })
    expect(body).not.toHaveProperty('output_format')
    expect(conversation().outputFormat).toMatchObject({ schema: format.schema })
  })

  it('may define the shell and editor of Anthropic, which other models get as functions', () => {
    const { conversation } = parse({
      ...minimal,
      tools: [
        { type: 'bash_20250124', name: 'bash' },
        { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' },
        { type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' },
      ],
    })
    expect(
      conversation().tools.map(({ name, parameters }) => [name, Object.keys(parameters!.properties as object)[0]]),
    ).toEqual([
      ['bash', 'command'],
      ['str_replace_based_edit_tool', 'command'],
    ])
  })
})
