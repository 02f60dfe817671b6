import { describe, expect, it } from 'vitest'
import type { Part } from '../../../base/domain/conversation.ts'
import { chatToConversation } from './chat-to-conversation.ts'
import { conversationToChat } from './conversation-to-chat.ts'

const parts = (message: object): readonly Part[] =>
  chatToConversation({ messages: [{ role: 'user', content: 'Hello' }, message] }).turns[1]!.parts
const assistant = (fields: object) => parts({ role: 'assistant', content: null, ...fields })
const messagesOf = (turns: Parameters<typeof conversationToChat>[0]['turns'], takesReasoning = true) =>
  conversationToChat({ ...chatToConversation({ messages: [] }), turns }, { takesCustomTools: false, takesReasoning })
    .messages

describe('a chat request', () => {
  it.each<[name: string, fields: object, part: object]>([
    ['plain text', { reasoning_content: 'Hm' }, { text: 'Hm' }],
    ['the field of OpenRouter', { reasoning: 'Hm' }, { text: 'Hm' }],
    [
      'a seal of Anthropic with its text',
      { reasoning_details: [{ type: 'reasoning.text', text: 'Hm', signature: 's' }] },
      { text: 'Hm', seal: { family: 'anthropic', data: 's' } },
    ],
    [
      'a seal with its text elsewhere',
      { reasoning_content: 'Hm', reasoning_details: [{ type: 'reasoning.text', text: '', signature: 's' }] },
      { text: 'Hm', seal: { family: 'anthropic', data: 's' } },
    ],
    [
      'a secret of OpenAI',
      { reasoning_details: [{ type: 'reasoning.encrypted', data: 'sy1.openai.a1.xyz', id: 'rs_1' }] },
      { text: '', seal: { family: 'openai', account: 'a1', data: 'xyz' }, id: 'rs_1' },
    ],
    [
      'a secret of Anthropic',
      { reasoning_details: [{ type: 'reasoning.encrypted', data: 'x', format: 'anthropic-claude-v1' }] },
      { text: '', seal: { family: 'anthropic', data: 'x', isRedacted: true } },
    ],
  ])('has reasoning as %s', (_, fields, part) => {
    expect(assistant({ ...fields, content: 'a' })).toEqual([
      { kind: 'reasoning', ...part },
      { kind: 'text', text: 'a' },
    ])
  })

  it('has functions of the older form', () => {
    const { tools, toolChoice, turns } = chatToConversation({
      messages: [
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
        { role: 'function', name: 'f', content: 'done' },
      ],
      functions: [{ name: 'f', parameters: { type: 'object' } }],
      function_call: { name: 'f' },
    })
    expect(tools).toMatchObject([{ kind: 'function', name: 'f' }])
    expect(toolChoice).toEqual({ kind: 'only', name: 'f' })
    const [{ parts: called }, { parts: results }] = turns as [(typeof turns)[0], (typeof turns)[0]]
    expect(called[0]).toMatchObject({ id: (results[0] as { callId: string }).callId })
  })

  it('has media as addresses or base64', () => {
    const content = [
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==', detail: 'low' } },
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
      { type: 'file', file: { file_data: 'data:application/pdf;base64,BB==', filename: 'b.pdf' } },
      { type: 'file', file: { file_data: 'data:text/plain,a%20b' } },
    ]
    expect(parts({ role: 'user', content })).toEqual([
      { kind: 'image', source: { mediaType: 'image/png', base64: 'AA==' }, detail: 'low' },
      { kind: 'image', source: { url: 'https://example.com/a.png' } },
      { kind: 'document', source: { mediaType: 'application/pdf', base64: 'BB==' }, name: 'b.pdf' },
      { kind: 'document', source: { mediaType: 'text/plain', base64: 'YSBi' } },
    ])
  })
})

describe('a chat body', () => {
  const call: Part = { kind: 'tool_call', id: 'c', name: 'f', toolKind: 'function', arguments: '{}' }

  it('has images of results in the message after the results', () => {
    const image = { kind: 'image' as const, source: { url: 'https://example.com/a.png' } }
    const result: Part = { kind: 'tool_result', callId: 'c', toolKind: 'function', content: [image], isError: false }
    expect(
      messagesOf([
        { role: 'assistant', parts: [call] },
        { role: 'user', parts: [result, { kind: 'text', text: 'a' }] },
      ]),
    ).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'The result follows in the next message.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'From the result of the tool call c:' },
          { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
          { type: 'text', text: 'a' },
        ],
      },
    ])
  })

  it('has reasoning as text where the server wants it, and never that of another vendor', () => {
    const turn = (...reasoning: Part[]) => [
      { role: 'assistant' as const, parts: [...reasoning, { kind: 'text' as const, text: 'a' }] },
    ]
    const own: Part = { kind: 'reasoning', text: 'Hm', seal: { family: 'text', data: '' } }
    const foreign: Part = { kind: 'reasoning', text: 'Hm', seal: { family: 'anthropic', data: 's' } }
    const plain = [{ role: 'assistant', content: 'a' }]
    expect(messagesOf(turn(own))).toEqual([{ ...plain[0], reasoning_content: 'Hm' }])
    expect(messagesOf(turn(own), false)).toEqual(plain)
    expect(messagesOf(turn(foreign))).toEqual(plain)
  })

  it('has a document of plain text as text', () => {
    const source = { mediaType: 'text/plain', base64: Buffer.from('a b').toString('base64') }
    expect(messagesOf([{ role: 'user', parts: [{ kind: 'document', source, name: 'n.txt' }] }])).toEqual([
      { role: 'user', content: 'n.txt:\na b' },
    ])
  })

  it('has tools of namespaces under one name, and custom tools as functions', () => {
    const conversation = chatToConversation({ messages: [] })
    const tools = [
      {
        kind: 'function' as const,
        name: 'read',
        namespace: 'files',
        description: null,
        parameters: null,
        strict: null,
      },
      { kind: 'custom' as const, name: 'patch', description: null, parameters: null, strict: null },
    ]
    const body = conversationToChat(
      { ...conversation, tools, toolChoice: { kind: 'only', name: 'read', namespace: 'files' } },
      { takesCustomTools: false, takesReasoning: false },
    )
    expect(body).toMatchObject({
      tools: [
        { function: { name: 'files__read' } },
        { type: 'function', function: { name: 'patch', parameters: { required: ['input'] } } },
      ],
      tool_choice: { type: 'function', function: { name: 'files__read' } },
    })
  })
})
