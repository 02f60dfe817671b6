import { describe, expect, it } from 'vitest'
import type { Conversation, Part, Turn } from '../../../base/domain/conversation.ts'
import { conversationToMessages, type MessagesTarget } from './conversation-to-messages.ts'

const target: MessagesTarget = {
  model: 'claude-fable-5-2',
  maxTokens: 8_000,
  stream: true,
  thinking: 'adaptive',
  takesSampling: true,
  caches: 'long',
}

const text = (content: string): Part => ({ kind: 'text', text: content })
const user = (...parts: Part[]): Turn => ({ role: 'user', parts })
const assistant = (...parts: Part[]): Turn => ({ role: 'assistant', parts })

const empty: Conversation = {
  system: [],
  turns: [user(text('Hello'))],
  tools: [],
  toolChoice: null,
  parallelToolCalls: null,
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
  reasoning: { effort: null, isShown: null },
  outputFormat: null,
  verbosity: null,
  cacheKey: null,
  endUser: null,
}
const tool = { kind: 'function' as const, name: 'f', description: null, parameters: null, strict: null }
const call: Part = { kind: 'tool_call', id: 'c', name: 'f', toolKind: 'function', arguments: '{}' }
const result: Part = { kind: 'tool_result', callId: 'c', toolKind: 'function', content: [], isError: false }

const body = (conversation: Partial<Conversation>, more: Partial<MessagesTarget> = {}) =>
  conversationToMessages({ ...empty, ...conversation }, { ...target, ...more })
const messages = (...turns: Turn[]) => body({ turns }).messages

describe('a body for Anthropic', () => {
  it('has the model, the limit and the messages', () => {
    expect(body({})).toEqual({
      model: 'claude-fable-5-2',
      max_tokens: 8_000,
      stream: true,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
    })
  })

  it('joins neighbouring turns, and instructions between turns become text of the user', () => {
    expect(
      messages(user(text('a')), { role: 'system', parts: [text('b')] }, user(text('c')), assistant(text('d'))),
    ).toEqual([
      { role: 'user', content: ['a', 'b', 'c'].map(each => ({ type: 'text', text: each })) },
      { role: 'assistant', content: [{ type: 'text', text: 'd' }] },
    ])
  })

  it('begins with a turn of the user, has no blank texts and no white space after the last one', () => {
    expect(messages(assistant(text('a')), user(text(' \n')), assistant(text('b \n')))).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Continue.' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ])
  })

  it('has results first in one turn', () => {
    expect(messages(assistant(call), user(text('a'), result))).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c' },
          { type: 'text', text: 'a' },
        ],
      },
    ])
  })

  it.each([
    ['{"a": 1', { _raw: '{"a": 1' }],
    ['[1]', { _raw: '[1]' }],
    ['', {}],
    ['{"a":1}', { a: 1 }],
  ])('has the arguments %j as an object', (args, input) => {
    expect(messages(assistant({ ...call, arguments: args }), user(result))).toMatchObject([
      {},
      { content: [{ input }] },
      {},
    ])
  })

  it('has a custom tool as a function with one text', () => {
    const custom = { ...call, toolKind: 'custom' as const, arguments: 'patch' }
    const { tools, messages: sent } = body({
      tools: [{ ...tool, kind: 'custom' }],
      turns: [user(text('a')), assistant(custom), user(result)],
    })
    expect(tools).toMatchObject([{ name: 'f', input_schema: { required: ['input'] } }])
    expect(sent).toMatchObject([{}, { content: [{ input: { input: 'patch' } }] }, {}])
  })

  it('drops reasoning that Anthropic has not sealed, audio, and parts of other dialects', () => {
    const turn = assistant(
      { kind: 'reasoning', text: 'unsealed' },
      { kind: 'reasoning', text: 'foreign', seal: { family: 'openai', data: 'x' } },
      { kind: 'reasoning', text: 'own', seal: { family: 'anthropic', data: 'sig' } },
      { kind: 'opaque', dialect: 'responses', json: { type: 'x' } },
      text('a'),
    )
    expect(messages(user(text('q'), { kind: 'audio', format: 'wav', base64: 'AA' }), turn)).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'q' }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'own', signature: 'sig' },
          { type: 'text', text: 'a' },
        ],
      },
    ])
  })

  it('defines tools again that only earlier turns called, and forbids them', () => {
    expect(body({ turns: [user(text('a')), assistant(call), user(result)] })).toMatchObject({
      tools: [{ name: 'f', input_schema: { type: 'object' } }],
      tool_choice: { type: 'none' },
    })
  })

  it.each<[choice: Conversation['toolChoice'], parallel: boolean | null, sent: unknown]>([
    [null, null, undefined],
    [null, false, { type: 'auto', disable_parallel_tool_use: true }],
    [{ kind: 'auto' }, null, { type: 'auto' }],
    [{ kind: 'must' }, true, { type: 'any', disable_parallel_tool_use: false }],
    [{ kind: 'none' }, false, { type: 'none' }],
    [{ kind: 'only', name: 'read', namespace: 'files' }, null, { type: 'tool', name: 'files__read' }],
  ])('has the tool choice %j', (toolChoice, parallelToolCalls, sent) => {
    expect(body({ tools: [tool], toolChoice, parallelToolCalls }).tool_choice).toEqual(sent)
  })

  const hinted = (cache: 'short' | 'long'): Part => ({ kind: 'text', text: 'a', cache })
  it.each<[caches: MessagesTarget['caches'], sent: unknown[]]>([
    ['none', []],
    ['short', [1, 2, 3, 4].map(() => ({ type: 'ephemeral' }))],
    ['long', [{ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }, { type: 'ephemeral' }, { type: 'ephemeral' }]],
  ])('has the last four cache points that have a price: %s', (caches, sent) => {
    const parts = [hinted('long'), hinted('short'), hinted('long'), hinted('short'), hinted('short')]
    const [{ content }] = body({ turns: [user(...parts)] }, { caches }).messages as [
      { content: { cache_control?: unknown }[] },
    ]
    expect(content.flatMap(({ cache_control }) => cache_control ?? [])).toEqual(sent)
  })

  const high = { effort: 'high' as const, isShown: true }
  it.each<[name: string, Partial<Conversation>, Partial<MessagesTarget>, sent: unknown]>([
    ['none by default', {}, {}, {}],
    [
      'adaptive',
      { reasoning: high },
      {},
      { thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'high' } },
    ],
    ['switched off', { reasoning: { effort: 'none', isShown: null } }, {}, { thinking: { type: 'disabled' } }],
    [
      'the lowest',
      { reasoning: { effort: 'minimal', isShown: null } },
      {},
      { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
    ],
    [
      'not with a demanded call',
      { reasoning: high, tools: [tool], toolChoice: { kind: 'must' } },
      {},
      { output_config: { effort: 'high' } },
    ],
    [
      'by budget',
      { reasoning: high },
      { thinking: 'budget' },
      { thinking: { type: 'enabled', budget_tokens: 7_999, display: 'summarized' } },
    ],
    ['by budget, too small', { reasoning: high }, { thinking: 'budget', maxTokens: 1_000 }, {}],
    [
      'by budget, after a call without thinking',
      { reasoning: high, turns: [user(text('a')), assistant(call), user(result)] },
      { thinking: 'budget' },
      {},
    ],
    ['not for models without it', { reasoning: high }, { thinking: 'none' }, {}],
  ])('asks for thinking: %s', (_, conversation, more, sent) => {
    const { thinking, output_config } = body(conversation, more)
    expect({
      ...(thinking !== undefined && { thinking }),
      ...(output_config !== undefined && { output_config }),
    }).toEqual(sent)
  })

  const sampling = { ...empty.sampling, temperature: 1.7, topP: 0.5, topK: 40, stop: ['END', '\n'] }
  it('has sampling settings in the range of Anthropic', () => {
    expect(body({ sampling })).toMatchObject({ temperature: 1, top_k: 40, stop_sequences: ['END', '\n'] })
    expect(body({ sampling })).not.toHaveProperty('top_p')
  })

  it.each<[name: string, Partial<Conversation>, Partial<MessagesTarget>]>([
    ['while the model thinks', { reasoning: high }, {}],
    ['for models that refuse them', {}, { takesSampling: false }],
  ])('has no sampling settings %s', (_, conversation, more) => {
    const sent = body({ sampling, ...conversation }, more)
    expect(['temperature', 'top_p', 'top_k'].filter(field => field in sent)).toEqual([])
  })
})
