import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Conversation } from '../../src/base/domain/conversation.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import { UpstreamFailure } from '../../src/base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../src/base/runtime/json-object.ts'
import { parseChatRequest } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { chatToConversation } from '../../src/wire/dialects/chat/chat-to-conversation.ts'
import { conversationToChat } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { conversationToMessages } from '../../src/wire/dialects/messages/conversation-to-messages.ts'
import { messageToAnswer } from '../../src/wire/dialects/messages/message-to-answer.ts'
import { MessagesDecoder } from '../../src/wire/dialects/messages/messages-decoder.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'

// Clients and servers may send anything. What is wrong is refused by name, and never fails in another way.

const messagesRequest = {
  model: 'demo',
  max_tokens: 10,
  system: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '1h' } }],
  messages: [
    {
      role: 'user',
      content: [
        {
          type: 'document',
          title: 't',
          context: 'c',
          source: { type: 'content', content: [{ type: 'text', text: 'x' }] },
        },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'a', signature: 'sy1.text..' },
        { type: 'redacted_thinking', data: 'b' },
        { type: 'tool_use', id: 'c', name: 'f', input: { a: 1 } },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'c',
          content: [{ type: 'search_result', title: 't', source: 's', content: [{ type: 'text', text: 'x' }] }],
        },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA' } },
      ],
    },
    { role: 'system', content: 'd' },
  ],
  tools: [
    { name: 'f', description: 'd', input_schema: { type: 'object' }, strict: true },
    { type: 'bash_20250124', name: 'bash' },
  ],
  tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
  thinking: { type: 'enabled', budget_tokens: 2_048, display: 'omitted' },
  output_config: { effort: 'low', format: { type: 'json_schema', schema: {} } },
  context_management: { edits: [{ type: 'compact' }] },
  metadata: { user_id: 'u' },
  stop_sequences: ['a'],
}

const chatRequest = {
  model: 'demo',
  messages: [
    { role: 'developer', content: 'a' },
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } },
        { type: 'file', file: { file_data: 'AA', filename: 'a' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      reasoning_content: 'a',
      reasoning_details: [{ type: 'reasoning.text', text: 'a', signature: 'b', format: 'c', id: 'd' }],
      tool_calls: [
        {
          id: 'c',
          type: 'function',
          function: { name: 'f', arguments: '{}' },
          extra_content: { google: { thought_signature: 'x' } },
        },
        { id: 'd', type: 'custom', custom: { name: 'g', input: 'x' } },
      ],
    },
    { role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'a' }] },
  ],
  tools: [
    { type: 'function', function: { name: 'f', parameters: {}, strict: true } },
    { type: 'custom', custom: { name: 'g' } },
  ],
  tool_choice: { type: 'function', function: { name: 'f' } },
  response_format: { type: 'json_schema', json_schema: { name: 'a', schema: {}, description: 'b', strict: true } },
  stop: ['a'],
  reasoning_effort: 'low',
  verbosity: 'low',
}

const message = {
  type: 'message',
  content: [
    { type: 'thinking', thinking: 'a', signature: 'b' },
    { type: 'text', text: 'a' },
    { type: 'tool_use', id: 'c', name: 'f', input: { a: 1 } },
  ],
  stop_reason: 'refusal',
  stop_sequence: null,
  stop_details: { explanation: 'x' },
  usage: {
    input_tokens: 1,
    output_tokens: 2,
    cache_creation: { ephemeral_1h_input_tokens: 1 },
    output_tokens_details: { thinking_tokens: 1 },
  },
}

const streamEvents = [
  { type: 'message_start', message: { usage: { input_tokens: 1 } } },
  { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'c', name: 'f', input: {} } },
  { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 1 } },
  { type: 'message_stop' },
]

const strange = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    '',
    0,
    -1,
    1e300,
    true,
    [],
    {},
    [null],
    [[]],
    [{}],
    '__proto__',
    'constructor',
    'sy1.text..AAAA',
    { type: 'text' },
  ),
  fc.jsonValue({ maxDepth: 2 }),
)

/** Replaces the value at a random place, or removes it. */
function changed(value: unknown, path: readonly number[], replacement: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined || typeof value !== 'object' || value === null) return replacement
  const copy: JsonObject | unknown[] = Array.isArray(value) ? [...value] : { ...value }
  const keys = Object.keys(copy)
  if (keys.length === 0) return replacement
  const key = keys[step % keys.length]!
  const fields = copy as JsonObject
  fields[key] = changed(fields[key], rest, replacement)
  return copy
}

const change = fc.record({ path: fc.array(fc.nat(20), { minLength: 1, maxLength: 7 }), replacement: strange })
const changes = fc.array(change, { minLength: 1, maxLength: 3 })
const applied = (start: unknown, list: readonly { path: number[]; replacement: unknown }[]) =>
  list.reduce<unknown>((value, { path, replacement }) => changed(value, path, replacement), start)

/** Runs an action that may only fail with an error of this class. */
function onlyFailingWith(kind: typeof ApiError | typeof UpstreamFailure, action: () => void): void {
  try {
    action()
  } catch (error) {
    expect(error).toBeInstanceOf(kind)
  }
}

function encodeBoth(conversation: Conversation): void {
  JSON.stringify(conversationToChat(conversation, { takesCustomTools: false, takesReasoning: true }))
  const target = { model: 'm', maxTokens: 10_000, stream: false, takesSampling: true, caches: 'long' } as const
  JSON.stringify(conversationToMessages(conversation, { ...target, thinking: 'budget' }))
}

test('any request of messages is refused by name or translated', () => {
  fc.assert(
    fc.property(changes, list => {
      const body = Buffer.from(JSON.stringify(applied(messagesRequest, list)) ?? '')
      let conversation: Conversation | undefined
      onlyFailingWith(ApiError, () => {
        const request = parseMessagesRequest(body)
        request.facts.promptText()
        conversation = request.conversation()
      })
      if (conversation) encodeBoth(conversation)
    }),
    { numRuns: 1_000 },
  )
})

test('any request of chat is refused by name or translated', () => {
  fc.assert(
    fc.property(changes, list => {
      const body = Buffer.from(JSON.stringify(applied(chatRequest, list)) ?? '')
      let forward: JsonObject | undefined
      onlyFailingWith(ApiError, () => {
        forward = parseChatRequest(body).forward
      })
      if (forward) encodeBoth(chatToConversation(forward))
    }),
    { numRuns: 1_000 },
  )
})

test('any answer of messages is a failure of the server or translated', () => {
  fc.assert(
    fc.property(changes, list => {
      const whole = applied(message, list)
      if (isJsonObject(whole)) onlyFailingWith(UpstreamFailure, () => messageToAnswer(whole))
      const events = applied(streamEvents, list)
      onlyFailingWith(UpstreamFailure, () => {
        const decoder = new MessagesDecoder()
        for (const event of Array.isArray(events) ? events : [])
          decoder.push({ event: '', data: JSON.stringify(event) })
        decoder.end()
      })
    }),
    { numRuns: 1_000 },
  )
})
