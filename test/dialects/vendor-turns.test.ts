import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ParsedRequest } from '../../src/base/domain/chat-job.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { parseChatRequest } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { chatJobOf } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { extraFieldRules } from '../../src/wire/dialects/chat/upstream-request.ts'
import { parseGeminiRequest } from '../../src/wire/dialects/gemini/gemini-request.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { parseResponsesRequest } from '../../src/wire/dialects/responses/responses-request.ts'
import { ask, json, offerFor } from './ask-server.ts'
import { messagesProblem } from './server-problems.ts'

// A conversation that passes through without translation reaches its server in order, whatever the client cut out of it.

const sent = (parsed: ParsedRequest, server: 'messages' | 'responses') =>
  ask(chatJobOf(parsed, extraFieldRules()), offerFor(server))

const messagesSent = (messages: readonly object[], more: object = {}) => {
  const { body, changed } = sent(
    parseMessagesRequest(json({ model: 'm', max_tokens: 9, messages, ...more })),
    'messages',
  )
  return { messages: body.messages as JsonObject[], system: body.system, changed }
}
const itemsSent = (input: readonly object[]) => {
  const { body, changed } = sent(parseResponsesRequest(json({ model: 'm', input })), 'responses')
  return { items: body.input as JsonObject[], changed }
}

const text = (words: string) => ({ type: 'text', text: words })
const use = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} })
const result = (id: string, content: unknown = 'a ship') => ({ type: 'tool_result', tool_use_id: id, content })
const user = (content: unknown) => ({ role: 'user', content })
const assistant = (content: unknown) => ({ role: 'assistant', content })

describe('messages', () => {
  it('that are in order stay as they are', () => {
    const messages = [
      user('x'),
      assistant([text('hm'), use('t1')]),
      user([result('t1'), text('and?')]),
      assistant('so'),
    ]
    const { changed, ...got } = messagesSent(messages, { system: [text('Be short.')] })
    expect(got).toEqual({ messages, system: [text('Be short.')] })
    expect(changed).toEqual([])
  })

  // QuantumNous/new-api issue 1854, NousResearch/hermes-agent pull request 60628.
  it('have no blank texts', () => {
    const given = [user([text(''), text('x')]), assistant([text(' \n')]), user([text('y')]), assistant('so ')]
    const { messages, system, changed } = messagesSent(given, { system: [text('')] })
    expect(messages).toEqual([user([text('x')]), user([text('y')]), assistant('so')])
    expect(system).toBe(undefined)
    expect(changed).toEqual(['messages'])
  })

  // anthropics/claude-code issues 558, 1831, 8004.
  it('have a result for each call, and a call for each result', () => {
    const { messages } = messagesSent([user('x'), assistant([use('t1')]), user('stop'), user([result('t9')])])
    expect(messagesProblem({ messages })).toBe(null)
    expect(JSON.stringify(messages)).toContain('"tool_use_id":"t1"')
    expect(JSON.stringify(messages)).not.toContain('"tool_use_id":"t9"')
    expect(JSON.stringify(messages)).toContain('a ship')
  })

  it('are in order, whatever a client sends', () => {
    const id = fc.constantFrom('t1', 't2', 't3')
    const words = fc.constantFrom('', ' ', 'x')
    const results = fc.tuple(id, fc.oneof(words, fc.array(words.map(text), { maxLength: 2 })))
    const blocks = fc.oneof(
      words.map(text),
      id.map(use),
      results.map(each => result(...each)),
    )
    const content = fc.oneof(words, fc.array(blocks, { maxLength: 4 }))
    const message = fc.record({ role: fc.constantFrom('user', 'assistant'), content })
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 6 }), given => {
        // Calls of users and results of the model mean nothing.
        const meant = given.map(({ role, content }) => ({
          role,
          content:
            typeof content === 'string'
              ? content
              : content.filter(({ type }) => type === 'text' || (type === 'tool_use') === (role === 'assistant')),
        }))
        fc.pre(JSON.stringify(meant).includes('"x"'))
        const { messages } = messagesSent([user('go'), ...meant])
        expect(messagesProblem({ messages }), JSON.stringify(messages)).toBe(null)
        if (messagesProblem({ messages: [user('go'), ...meant] }) === null)
          expect(messages).toHaveLength(meant.length + 1)
      }),
      { numRuns: 400 },
    )
  })
})

describe('messages of chat', () => {
  const calls = (...ids: string[]) => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map(id => ({ id, type: 'function', function: { name: 'look', arguments: '{}' } })),
  })
  const tool = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'a ship' })
  const chatSent = (messages: readonly object[], kind: 'cloud' | 'local' = 'cloud') => {
    const { body, changed } = ask(parseChatRequest(json({ model: 'm', messages })), offerFor('chat', kind))
    return { messages: body.messages as JsonObject[], changed }
  }

  it('that are in order stay as they are', () => {
    const messages = [user('x'), calls('c1', 'c2'), tool('c2'), tool('c1'), user('y')]
    expect(chatSent(messages)).toEqual({ messages, changed: [] })
  })

  it('have a result for each call, and a call for each result', () => {
    const given = [tool('c0'), user('x'), calls('c1', 'c2'), tool('c2'), tool('c9'), user('stop'), tool('c1')]
    const { messages, changed } = chatSent(given)
    expect(messages.map(({ role, tool_call_id: id }) => (id === undefined ? role : `${role} ${id}`))).toEqual([
      ...['user', 'user', 'assistant', 'tool c2', 'tool c1', 'user', 'user', 'user'],
    ])
    expect(JSON.stringify(messages).split('a ship')).toHaveLength(5)
    expect(changed).toEqual(['messages'])
    // Local servers take what they get.
    expect(chatSent(given, 'local').messages).toHaveLength(given.length)
  })
})

describe('items of responses', () => {
  const call = (id: string) => ({ type: 'function_call', call_id: id, name: 'look', arguments: '{}' })
  const output = (id: string) => ({ type: 'function_call_output', call_id: id, output: 'a ship' })

  it('that are in order stay as they are', () => {
    const input = [
      { role: 'user', content: 'x' },
      { ...call('c1'), id: 'fc_1' },
      call('c2'),
      output('c2'),
      output('c1'),
    ]
    expect(itemsSent(input)).toEqual({ items: input, changed: [] })
  })

  it('have an output for each call, and a call for each output', () => {
    const { items, changed } = itemsSent([{ role: 'user', content: 'x' }, call('c1'), output('c9')])
    expect(items.map(({ type = 'message', call_id: id }) => [type, id])).toEqual([
      ['message', undefined],
      ['function_call', 'c1'],
      ['function_call_output', 'c1'],
      ['message', undefined],
    ])
    expect(JSON.stringify(items.at(-1))).toContain('a ship')
    expect(changed).toEqual(['input'])
  })

  // openai/codex issue 33176, mastra-ai/mastra issue 10815.
  it('have no ids of other makers', () => {
    const said = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'a' }] }
    const { items } = itemsSent([
      { ...said, id: '019f629b-43ee-7a82-acb1-3071dbffbdad' },
      { ...said, id: 'msg_1' },
      { ...said, id: `msg_${'1'.repeat(90)}` },
      { ...call('c1'), id: 'call_1' },
      { ...output('c1'), id: 'x' },
    ])
    expect(items.map(({ id }) => id)).toEqual([undefined, 'msg_1', undefined, undefined, undefined])
  })
})

describe('a conversation that is empty', () => {
  const empty = [user([]), user(''), user([text('')])]
  it.each([
    ...empty.map(
      message =>
        ['messages', () => parseMessagesRequest(json({ model: 'm', max_tokens: 9, messages: [message] }))] as const,
    ),
    ['input', () => parseResponsesRequest(json({ model: 'm', input: '' }))] as const,
    [
      'contents',
      () => parseGeminiRequest(json({ contents: [{ role: 'user', parts: [] }] }), { model: 'm', stream: false }),
    ] as const,
  ])('is refused: %s', (param, parse) => {
    expect(() => chatJobOf(parse(), extraFieldRules())).toThrow(`"${param}" must say something`)
  })

  it('is none with instructions, or with a picture', () => {
    const source = { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' }
    for (const body of [{ system: 'Go on.', messages: [user('')] }, { messages: [user([{ type: 'image', source }])] }])
      expect(
        chatJobOf(parseMessagesRequest(json({ model: 'm', max_tokens: 9, ...body })), extraFieldRules()),
      ).toBeDefined()
  })
})
