import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AnswerEvent, UsageParts } from '../../src/base/domain/answer-event.ts'
import type { ChatChunk } from '../../src/base/domain/completion.ts'
import { UpstreamFailure } from '../../src/base/domain/upstream-failure.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { ChunkDecoder } from '../../src/wire/dialects/chat/chunk-decoder.ts'
import { forwardMessages } from '../../src/wire/dialects/messages/forward-messages.ts'
import { MessagesEncoder } from '../../src/wire/dialects/messages/messages-encoder.ts'
import { messagesReader } from '../../src/wire/dialects/messages/messages-normaliser.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { SseDecoder } from '../../src/wire/dialects/sse/sse-decoder.ts'
import { arbitraryAnswer, joined } from './arbitrary-chat-answer.ts'

const envelope = { id: 'chatcmpl-01', created: 1_795_000_000, model: 'demo' }
const bounds = { wholeBytes: 1e6, eventBytes: 1e6, delimiters: 1e5, streamDelimiters: 1e6, otherBytes: 1e6 }
const expected = { choices: 1, hasStop: false, hidesReasoning: false, maxTokens: 100, bounds }

function chunksOf(stream: string) {
  const normaliser = messagesReader.stream(envelope, expected)
  let fast = 0
  const parts = new SseDecoder(1e6, uncounted).push(Buffer.from(stream)).flatMap(event => {
    const text = normaliser.text(event)
    if (text === null) return normaliser.push(event)
    fast += 1
    return [text]
  })
  return { parts: [...parts, ...normaliser.end()], fast, normaliser }
}

function encoded(events: readonly AnswerEvent[], usage: UsageParts): string {
  const encoder = new MessagesEncoder(envelope, 7, 'shown')
  return encoder.begin() + events.map(event => encoder.event(event)).join('') + encoder.end(usage)
}

const noCache = { cacheReadTokens: 0, cacheWriteTokens: 0, cacheWriteLongTokens: 0 }

describe('a stream of Anthropic', () => {
  test('becomes chunks of chat, however its text is cut', () => {
    fc.assert(
      fc.property(arbitraryAnswer(false), events => {
        const usage = events.flatMap(event => (event.kind === 'usage' ? [event.usage] : []))[0]!
        const { parts } = chunksOf(encoded(events, usage))
        const decoder = new ChunkDecoder()
        expect(joined(parts.flatMap(part => decoder.push(part)))).toEqual(joined(events))
      }),
    )
  })

  test('is parsed only at its first text', () => {
    const texts = ['a', 'b', '"c"', 'd\n'].map(text => ({ kind: 'text' as const, text }))
    const usage = { ...noCache, freshTokens: 3, outputTokens: 4, reasoningTokens: null }
    const { parts, fast, normaliser } = chunksOf(encoded([...texts, { kind: 'finish', reason: 'limit' }], usage))
    expect(fast).toBe(3)
    const [role, ...rest] = parts as ChatChunk[]
    expect(role!.choices[0]!.delta).toEqual({ role: 'assistant', content: '' })
    expect(rest.slice(0, 4)).toEqual(['a', 'b', '"c"', 'd\n'])
    expect(rest[4]!.choices[0]!.finish_reason).toBe('length')
    expect(rest[5]!.usage).toEqual({ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 })
    expect([normaliser.done, normaliser.complete, normaliser.awaitsUsage]).toEqual([true, true, true])
  })
})

describe('a whole answer of Anthropic', () => {
  const whole = (body: object) => messagesReader.whole(JSON.stringify(body), envelope, expected)

  test('becomes a completion', () => {
    const usage = { input_tokens: 3, cache_read_input_tokens: 2, output_tokens: 4 }
    const body = { content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn', usage }
    expect(whole(body)).toEqual({
      ...envelope,
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hi', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9, prompt_tokens_details: { cached_tokens: 2 } },
    })
  })

  test('fails without output', () => {
    expect(() => whole({ content: [], stop_reason: 'end_turn' })).toThrow(UpstreamFailure)
  })
})

describe('a body for a server of the same dialect', () => {
  const hour = { type: 'ephemeral', ttl: '1h' }
  const request = {
    model: 'x',
    max_tokens: 5,
    system: [
      { type: 'text', text: 'x-anthropic-billing-header: a' },
      { type: 'text', text: 'b', cache_control: hour },
    ],
    messages: [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: [{ type: 'thinking', thinking: '', signature: 'sy1.google..g' }] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'c', cache_control: hour }] },
        ],
      },
    ],
    tools: [{ name: 'f', input_schema: { type: 'object' }, defer_loading: true, cache_control: hour }],
    a_new_field: 1,
  }
  const { body } = parseMessagesRequest(Buffer.from(JSON.stringify(request)))
  const target = { model: 'm', maxTokens: 9, stream: true }

  test('keeps all but seals of others', () => {
    const { system, messages, tools, a_new_field } = request
    const sent = forwardMessages(body, { ...target, caches: 'long', isAnthropic: true })
    const kept = [messages[0], messages[2]]
    expect(sent).toEqual({ model: 'm', max_tokens: 9, stream: true, system, tools, a_new_field, messages: kept })
  })

  test.each([
    ['none', undefined],
    ['short', { type: 'ephemeral' }],
  ] as const)('has only cache points with a price: %s', (caches, cache_control) => {
    const before = JSON.stringify(body)
    const sent = JSON.stringify(forwardMessages(body, { ...target, caches, isAnthropic: false }))
    expect(sent).not.toContain('1h')
    expect(sent).not.toContain('billing-header')
    expect(JSON.parse(sent).tools[0].cache_control).toEqual(cache_control)
    expect(JSON.stringify(body)).toBe(before)
  })
})
