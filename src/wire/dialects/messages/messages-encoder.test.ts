import { describe, expect, it, test } from 'vitest'
import type { AnswerEvent, UsageParts } from '../../../base/domain/answer-event.ts'
import type { ChatChunk, ChunkDelta, TokenUsage } from '../../../base/domain/completion.ts'
import { ApiError, type ErrorCode } from '../../../base/domain/errors.ts'
import { unwrapSeal } from '../seal.ts'
import type { ReasoningDisplay } from './answer-blocks.ts'
import { answerToMessage } from './answer-to-message.ts'
import { type MessagesJob, messagesDialectWith } from './messages-dialect.ts'
import { MessagesEncoder, STOP_EVENT } from './messages-encoder.ts'
import { messagesErrorBody, messagesErrorEvent } from './messages-error-body.ts'

const dialect = messagesDialectWith({ rules: new Map(), countInput: () => 7 })
const job = {
  ...dialect.parseRequest(Buffer.from('{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}')),
  reasoningDisplay: 'shown',
} as MessagesJob

const envelope = { id: 'chatcmpl-01', created: 1_795_000_000, model: 'demo' }
const usage: UsageParts = {
  freshTokens: 1,
  cacheReadTokens: 2,
  cacheWriteTokens: 3,
  cacheWriteLongTokens: 4,
  outputTokens: 5,
  reasoningTokens: 1,
}

/** Parses server-sent events, each of which must be named after its type. */
function parsed(stream: string) {
  return stream
    .split('\n\n')
    .slice(0, -1)
    .map(event => {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event)!
      const body = JSON.parse(data!)
      expect(body.type).toBe(name)
      return body
    })
}

function encoded(events: readonly AnswerEvent[], display: ReasoningDisplay = 'shown') {
  const encoder = new MessagesEncoder(envelope, 7, display)
  return parsed(
    encoder.begin() + events.map(event => encoder.event(event)).join('') + encoder.end(usage, { cost_usd: 0.1 }),
  )
}

const content = (events: readonly AnswerEvent[], display: ReasoningDisplay = 'shown') =>
  answerToMessage(events, envelope, display).content as Record<string, string>[]

const text: AnswerEvent = { kind: 'text', text: 'Hi' }
const thought: AnswerEvent = { kind: 'reasoning', text: 'Hm' }
const seal: AnswerEvent = { kind: 'reasoning_seal', seal: { family: 'anthropic', data: 'sig' } }
const call: AnswerEvent[] = [{ kind: 'tool_start', id: 'c', name: 'f', toolKind: 'function' }, { kind: 'tool_end' }]

describe('a stream of messages', () => {
  it('has the events of the API in their order', () => {
    expect(encoded([thought, seal, text, ...call, { kind: 'finish', reason: 'tools' }])).toMatchObject([
      {
        type: 'message_start',
        message: { id: 'msg_01', role: 'assistant', model: 'demo', content: [], usage: { input_tokens: 7 } },
      },
      { type: 'ping' },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'sig' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hi' } },
      { type: 'content_block_stop', index: 1 },
      { type: 'content_block_start', index: 2, content_block: { type: 'tool_use', id: 'c', name: 'f', input: {} } },
      { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '{}' } },
      { type: 'content_block_stop', index: 2 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use', stop_sequence: null },
        usage: {
          input_tokens: 1,
          cache_read_input_tokens: 2,
          cache_creation_input_tokens: 7,
          cache_creation: { ephemeral_5m_input_tokens: 3, ephemeral_1h_input_tokens: 4 },
          output_tokens: 5,
          output_tokens_details: { thinking_tokens: 1 },
          cost_usd: 0.1,
        },
      },
      { type: 'message_stop' },
    ])
  })

  it('needs one delta for each further text', () => {
    const encoder = new MessagesEncoder(envelope, 7, 'shown')
    encoder.event(text)
    expect(parsed(encoder.text('"é"\n'))).toEqual([
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: '"é"\n' } },
    ])
  })

  it.each<[finish: AnswerEvent, stopReason: string, stopSequence: string | null]>([
    [{ kind: 'finish', reason: 'end' }, 'end_turn', null],
    [{ kind: 'finish', reason: 'stop_sequence', stopSequence: 'END' }, 'stop_sequence', 'END'],
    [{ kind: 'finish', reason: 'limit' }, 'max_tokens', null],
    [{ kind: 'finish', reason: 'refused' }, 'refusal', null],
    [{ kind: 'finish', reason: 'context_full' }, 'model_context_window_exceeded', null],
  ])('ends after %j', (finish, stop_reason, stop_sequence) => {
    expect(encoded([text, finish]).at(-2).delta).toMatchObject({ stop_reason, stop_sequence })
  })

  it('shows the text of a refusal', () => {
    const events = encoded([
      { kind: 'refusal', text: 'No.' },
      { kind: 'finish', reason: 'end' },
    ])
    expect(events[3].delta).toEqual({ type: 'text_delta', text: 'No.' })
    expect(events.at(-2).delta.stop_reason).toBe('refusal')
  })

  it('gives a custom tool its text as the input of a function', () => {
    const pieces = ['a "b"\n', 'c'].map(piece => ({ kind: 'tool_arguments' as const, text: piece }))
    const events: AnswerEvent[] = [
      { kind: 'tool_start', id: 'c', name: 'f', toolKind: 'custom' },
      ...pieces,
      { kind: 'tool_end' },
    ]
    expect(content(events)).toEqual([{ type: 'tool_use', id: 'c', name: 'f', input: { input: 'a "b"\nc' } }])
  })
})

describe('reasoning', () => {
  it('without a seal ends with one that says so', () => {
    expect(content([thought, text])[0]).toEqual({ type: 'thinking', thinking: 'Hm', signature: 'sy1.text..' })
  })

  it('that is omitted leaves a block with its seal, which carries the text if no server sealed it', () => {
    expect(content([thought, seal, text], 'omitted')).toEqual([
      { type: 'thinking', thinking: '', signature: 'sig' },
      { type: 'text', text: 'Hi' },
    ])
    const [block] = content([thought, thought, text], 'omitted')
    expect(block!.thinking).toBe('')
    expect(unwrapSeal(block!.signature!)?.text).toBe('HmHm')
  })

  it('that nobody asked for is sent only before a call', () => {
    expect(content([thought, seal, text], 'before_tools')).toEqual([{ type: 'text', text: 'Hi' }])
    expect(content([thought, text], 'before_tools')).toEqual([{ type: 'text', text: 'Hi' }])
    expect(content([thought, seal, text, ...call], 'before_tools').map(({ type }) => type)).toEqual([
      'text',
      'thinking',
      'tool_use',
    ])
  })

  it('of a call stands before it', () => {
    const [start, end] = call as [Extract<AnswerEvent, { kind: 'tool_start' }>, AnswerEvent]
    const sealed: AnswerEvent = { ...start, seal: { family: 'google', data: 'g' } }
    expect(content([sealed, end])).toEqual([
      { type: 'thinking', thinking: '', signature: 'sy1.google..g' },
      { type: 'tool_use', id: 'c', name: 'f', input: {} },
    ])
  })

  it('that is secret stays so', () => {
    const secret: AnswerEvent = { kind: 'reasoning_seal', seal: { family: 'anthropic', data: 'x', isRedacted: true } }
    expect(content([thought, secret])).toMatchObject([{ type: 'thinking' }, { type: 'redacted_thinking', data: 'x' }])
  })
})

describe('chunks of chat', () => {
  const chunk = (delta: ChunkDelta, finish_reason: 'stop' | null = null): ChatChunk => ({
    ...envelope,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
  })
  const billed: TokenUsage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, cost_usd: 0.000001 }

  it('become a stream of messages', () => {
    const encoder = dialect.stream.encoder(envelope, job)
    const stream = [
      encoder.chunk(chunk({ role: 'assistant', content: '' })),
      encoder.chunk(chunk({ reasoning_content: 'Hm' })),
      encoder.text('a'),
      encoder.text('b'),
      encoder.chunk(
        chunk({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] }),
      ),
      encoder.chunk(chunk({}, 'stop')),
      encoder.end(billed),
    ]
    expect(stream.at(-1)!.endsWith(STOP_EVENT)).toBe(true)
    expect(parsed(stream.join('')).map(({ type, delta }) => delta?.type ?? type)).toEqual([
      ...['message_start', 'ping', 'content_block_start', 'thinking_delta', 'signature_delta', 'content_block_stop'],
      ...['content_block_start', 'text_delta', 'text_delta', 'content_block_stop'],
      ...['content_block_start', 'input_json_delta', 'content_block_stop', 'message_delta', 'message_stop'],
    ])
    expect(parsed(stream.at(-1)!)[0].usage).toMatchObject({ input_tokens: 3, output_tokens: 2, cost_usd: 0.000001 })
  })

  it('keep text after an open call behind it', () => {
    const encoder = dialect.stream.encoder(envelope, job)
    encoder.chunk(chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{' } }] }))
    expect(encoder.text('late')).toBe('')
    expect(encoder.chunk(chunk({ tool_calls: [{ index: 0, function: { arguments: '}' } }] }))).not.toContain('late')
    expect(encoder.chunk(chunk({}, 'stop'))).toContain('late')
  })
})

test('a whole answer of chat becomes a message with its cost', () => {
  const { answer, stream } = dialect
  const message = { role: 'assistant' as const, content: 'Hi', refusal: null }
  const choices = [{ index: 0, message, finish_reason: 'stop' as const }]
  const body = answer.withUsage(answer.encode({ ...envelope, object: 'chat.completion', choices }, job), {
    ...{ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, cost_usd: 0.5 },
    prompt_tokens_details: { cached_tokens: 1 },
  })
  expect(JSON.parse(body)).toMatchObject({
    id: 'msg_01',
    type: 'message',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 2, cache_read_input_tokens: 1, output_tokens: 2, cost_usd: 0.5 },
  })
  expect(stream.isComplete(`x${STOP_EVENT}`)).toBe(true)
  expect(stream.encoder(envelope, job).fail(new ApiError('overloaded'))).toContain('"request_id":"01"')
  expect(parsed(stream.ping)).toEqual([{ type: 'ping' }])
})

describe('an error', () => {
  it.each<[code: ErrorCode, type: string]>([
    ['invalid_value', 'invalid_request_error'],
    ['invalid_api_key', 'authentication_error'],
    ['insufficient_credits', 'billing_error'],
    ['model_not_allowed', 'permission_error'],
    ['model_not_found', 'not_found_error'],
    ['request_too_large', 'request_too_large'],
    ['idempotency_key_reused', 'invalid_request_error'],
    ['rate_limit_exceeded', 'rate_limit_error'],
    ['all_hosters_failed', 'api_error'],
    ['overloaded', 'overloaded_error'],
    ['settlement_unavailable', 'timeout_error'],
  ])('%s has the type %s', (code, type) => {
    const body = JSON.parse(messagesErrorBody(new ApiError(code, { param: 'x', facts: { retry_at: 'y' } }), 'req_1'))
    expect(body).toEqual({
      type: 'error',
      error: { type, message: expect.any(String), code, param: 'x', retry_at: 'y' },
      request_id: 'req_1',
    })
  })

  it('ends a stream with an event of its own', () => {
    const event = messagesErrorEvent(new ApiError('stream_interrupted'))
    expect(parsed(event)).toMatchObject([{ type: 'error', error: { type: 'api_error' }, request_id: null }])
  })
})
