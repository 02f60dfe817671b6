import { describe, expect, it } from 'vitest'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { readResponse } from './upstream-response.ts'
import { ResponsesDecoder } from './upstream-stream.ts'

const usage = {
  input_tokens: 10,
  input_tokens_details: { cached_tokens: 4, cache_write_tokens: 3 },
  output_tokens: 5,
  output_tokens_details: { reasoning_tokens: 2 },
  total_tokens: 15,
}
const usageEvent: AnswerEvent = {
  kind: 'usage',
  usage: {
    freshTokens: 3,
    cacheReadTokens: 4,
    cacheWriteTokens: 3,
    cacheWriteLongTokens: 0,
    outputTokens: 5,
    reasoningTokens: 2,
  },
}
const message = (text: string) => ({ type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] })
const call = (n: number, args: string) => ({
  type: 'function_call',
  call_id: `call_${n}`,
  name: 'read',
  arguments: args,
})
const added = (output_index: number, item: object) => ({ type: 'response.output_item.added', output_index, item })
const done = (output_index: number, item: object) => ({ type: 'response.output_item.done', output_index, item })
const args = (output_index: number, delta: string) => ({
  type: 'response.function_call_arguments.delta',
  output_index,
  delta,
})
const textDelta = (output_index: number, delta: string) => ({
  type: 'response.output_text.delta',
  output_index,
  delta,
})
const many = (count: number, event: (at: number) => object) => Array.from({ length: count }, (_, at) => event(at))
const completed = (response: object = {}) => ({ type: 'response.completed', response: { usage, ...response } })

function read(...events: object[]): AnswerEvent[] {
  const decoder = new ResponsesDecoder()
  const answer = events.flatMap(event => decoder.push({ event: '', data: JSON.stringify(event) }))
  return [...answer, ...decoder.end()]
}

const started = (n: number) => ({ kind: 'tool_start', id: `call_${n}`, name: 'read', toolKind: 'function' })
const finish = (reason: string) => ({ kind: 'finish', reason })

describe('a stream of a Responses server', () => {
  it('gives calls that are written at the same time one after the other', () => {
    expect(
      read(
        added(0, call(0, '')),
        added(1, call(1, '')),
        args(1, '{"b"'),
        args(0, '{"a"'),
        args(1, ':2}'),
        done(1, call(1, '{"b":2}')),
        args(0, ':1}'),
        done(0, call(0, '{"a":1}')),
        completed(),
      ),
    ).toEqual([
      started(0),
      { kind: 'tool_arguments', text: '{"a"' },
      { kind: 'tool_arguments', text: ':1}' },
      { kind: 'tool_end' },
      started(1),
      { kind: 'tool_arguments', text: '{"b":2}' },
      { kind: 'tool_end' },
      finish('tools'),
      usageEvent,
    ])
  })

  it('reads arguments that arrive before their call at the end of the item', () => {
    expect(
      read(
        args(0, '":1}'),
        added(0, call(0, '')),
        args(0, '{"a'),
        args(0, '":1}'),
        done(0, call(0, '{"a":1}')),
        completed(),
      ),
    ).toEqual([
      started(0),
      { kind: 'tool_arguments', text: '{"a":1}' },
      { kind: 'tool_end' },
      finish('tools'),
      usageEvent,
    ])
  })

  it.each([
    ['items without deltas', [done(0, message('Hi')), done(1, call(0, '{}')), completed()]],
    ['only the whole response', [completed({ output: [message('Hi'), call(0, '{}')] })]],
    [
      'events without an index',
      [
        { type: 'response.output_item.added', item: message('') },
        { type: 'response.output_text.delta', delta: 'Hi' },
        { type: 'response.output_item.done', item: message('Hi') },
        { type: 'response.output_item.added', item: call(0, '') },
        { type: 'response.output_item.done', item: call(0, '{}') },
        completed({ output: [message('Hi'), call(0, '{}')] }),
      ],
    ],
  ])('may contain %s', (_, events) => {
    expect(read(...events)).toEqual([
      { kind: 'text', text: 'Hi' },
      started(0),
      { kind: 'tool_arguments', text: '{}' },
      { kind: 'tool_end' },
      finish('tools'),
      usageEvent,
    ])
  })

  it('separates the parts of a summary, and ignores the full text that repeats it', () => {
    const part = (type: string, more: object) => ({ type: `response.${type}`, output_index: 0, ...more })
    const item = { type: 'reasoning', summary: [], encrypted_content: 'gAAA' }
    expect(
      read(
        added(0, item),
        part('reasoning_summary_part.added', { summary_index: 0 }),
        part('reasoning_summary_text.delta', { summary_index: 0, delta: 'One' }),
        part('reasoning_summary_part.added', { summary_index: 1 }),
        part('reasoning_summary_text.delta', { summary_index: 1, delta: 'Two' }),
        part('reasoning_text.delta', { content_index: 0, delta: 'raw' }),
        done(0, item),
        done(1, message('Hi')),
        completed(),
      ),
    ).toEqual([
      { kind: 'reasoning', text: 'One' },
      { kind: 'reasoning', text: '\n\n' },
      { kind: 'reasoning', text: 'Two' },
      { kind: 'reasoning_seal', seal: { family: 'openai', data: 'gAAA' } },
      { kind: 'text', text: 'Hi' },
      finish('end'),
      usageEvent,
    ])
  })

  it.each([
    ['max_output_tokens', 'limit'],
    ['content_filter', 'refused'],
  ])('that is incomplete because of %s keeps what was written, and its usage', (reason, expected) => {
    const response = { status: 'incomplete', incomplete_details: { reason }, usage }
    expect(read(added(0, call(0, '')), args(0, '{"a'), { type: 'response.incomplete', response })).toEqual([
      started(0),
      { kind: 'tool_arguments', text: '{"a' },
      { kind: 'tool_end' },
      finish(expected),
      usageEvent,
    ])
  })

  it.each([
    [
      'response.failed',
      { type: 'response.failed', response: { error: { code: 'server_error', message: 'Oh' }, usage } },
      'server_error',
    ],
    [
      'a rate limit',
      { type: 'response.failed', response: { error: { code: 'rate_limit_exceeded', message: '' } } },
      'busy',
    ],
    [
      'an error event',
      { type: 'error', code: 'context_length_exceeded', message: 'Too long', param: null },
      'request_rejected',
    ],
    [
      'an error object',
      { type: 'error', error: { type: 'invalid_request_error', message: 'Bad' } },
      'request_rejected',
    ],
    ['an error without a type', { error: { code: 'insufficient_quota', message: 'No credit' } }, 'credential_rejected'],
  ])('fails with %s', (_, event, outcome) => {
    expect(() => read(event)).toThrow(expect.objectContaining({ outcome }))
  })

  it('fails when it breaks off or is not JSON', () => {
    expect(() => read(done(0, message('Hi')))).toThrow(expect.objectContaining({ outcome: 'server_error' }))
    expect(() => new ResponsesDecoder().push({ event: '', data: '{' })).toThrow(
      expect.objectContaining({ outcome: 'malformed' }),
    )
  })

  it('joins the texts of an item that waits', () => {
    const waiting = Array.from({ length: 200_000 }, () => ({ event: '', data: JSON.stringify(textDelta(1, 'a')) }))
    const decoder = new ResponsesDecoder()
    const push = (event: object) => decoder.push({ event: '', data: JSON.stringify(event) })
    push(added(0, call(0, '')))
    expect(waiting.flatMap(event => decoder.push(event))).toEqual([])
    expect(push(done(0, call(0, '{}')))).toEqual([
      { kind: 'tool_arguments', text: '{}' },
      { kind: 'tool_end' },
      { kind: 'text', text: 'a'.repeat(200_000) },
    ])
  })

  it.each([
    ['more text for an item that waits', [added(0, call(0, '')), ...many(12, () => textDelta(1, 'x'.repeat(100_000)))]],
    ['more items', many(1_100, at => added(at, message('')))],
    ['more items that only its end has', [completed({ output: many(1_100, () => message('a')) })]],
  ])('fails with %s than an answer needs', (_, events) => {
    expect(() => read(...events)).toThrow(expect.objectContaining({ outcome: 'malformed' }))
  })

  it('keeps the usage of a failed answer', () => {
    const decoder = new ResponsesDecoder()
    const failed = { type: 'response.failed', response: { error: { code: 'server_error', message: 'Oh' }, usage } }
    expect(() => decoder.push({ event: '', data: JSON.stringify(failed) })).toThrow()
    expect(decoder.usage).toEqual(usageEvent.usage)
  })
})

describe('a whole response', () => {
  it.each([
    ['not JSON', '{', 'malformed'],
    ['no object', '[]', 'malformed'],
    ['no output', '{"object":"response"}', 'malformed'],
    ['an error', '{"error":{"message":"Bad","type":"invalid_request_error"}}', 'request_rejected'],
    ['a failure', '{"status":"failed","output":[],"error":{"code":"server_error","message":""}}', 'server_error'],
    ['an answer that is not finished', '{"status":"in_progress","output":[]}', 'server_error'],
  ])('fails with %s', (_, text, outcome) => {
    expect(() => readResponse(text)).toThrow(expect.objectContaining({ outcome }))
  })

  it('ignores items of tools that a server ran', () => {
    const output = [{ type: 'web_search_call', id: 'ws_1', status: 'completed' }, message('Hi')]
    expect(readResponse(JSON.stringify({ status: 'completed', output, usage }))).toEqual([
      { kind: 'text', text: 'Hi' },
      finish('end'),
      usageEvent,
    ])
  })

  it('has no usage when the server reports only zeros', () => {
    const zeros = { input_tokens: 0, output_tokens: 0 }
    expect(readResponse(JSON.stringify({ output: [message('Hi')], usage: zeros })).at(-1)).toEqual(finish('end'))
  })
})
