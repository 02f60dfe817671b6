import { describe, expect, it } from 'vitest'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { messageToAnswer } from './message-to-answer.ts'
import { MessagesDecoder } from './messages-decoder.ts'

type Json = Record<string, unknown>

function decoded(...events: (Json | string)[]): AnswerEvent[] {
  const decoder = new MessagesDecoder()
  const answer = events.flatMap(each =>
    decoder.push(
      typeof each === 'string' ? { event: '', data: each } : { event: each.type as string, data: JSON.stringify(each) },
    ),
  )
  return [...answer, ...decoder.end()]
}

function failureOf(action: () => unknown): unknown {
  try {
    action()
  } catch (error) {
    if (error instanceof UpstreamFailure) return error.outcome
    throw error
  }
}

const start = {
  type: 'message_start',
  message: {
    usage: {
      input_tokens: 10,
      cache_creation_input_tokens: 5,
      cache_read_input_tokens: 100,
      cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 3 },
      output_tokens: 1,
    },
  },
}
const begin = (index: number, content_block: Json) => ({ type: 'content_block_start', index, content_block })
const delta = (index: number, fields: Json) => ({ type: 'content_block_delta', index, delta: fields })
const stop = (index: number) => ({ type: 'content_block_stop', index })
const finish = (stop_reason: string, more: Json = {}) => ({
  type: 'message_delta',
  delta: { stop_reason, ...more },
  usage: { output_tokens: 9 },
})
const end = { type: 'message_stop' }
const text = [begin(0, { type: 'text', text: '' }), delta(0, { type: 'text_delta', text: 'Hi' }), stop(0)]
const said: AnswerEvent = { kind: 'text', text: 'Hi' }
const usage: AnswerEvent = {
  kind: 'usage',
  usage: {
    freshTokens: 10,
    cacheReadTokens: 100,
    cacheWriteTokens: 2,
    cacheWriteLongTokens: 3,
    outputTokens: 9,
    reasoningTokens: null,
  },
}
const call = (id: string): AnswerEvent => ({ kind: 'tool_start', id, name: 'f', toolKind: 'function' })
const args = (json: string): AnswerEvent => ({ kind: 'tool_arguments', text: json })
const callEnd: AnswerEvent = { kind: 'tool_end' }

describe('a stream of messages', () => {
  it('gives text, the finish and the last report of each count', () => {
    expect(decoded(start, { type: 'ping' }, ...text, finish('end_turn'), end, ...text)).toEqual([
      said,
      { kind: 'finish', reason: 'end' },
      usage,
    ])
  })

  it('leaves the output open until a report after the start counts it', () => {
    const decoder = new MessagesDecoder()
    for (const event of [start, ...text]) decoder.read(event)
    expect(decoder.usage).toMatchObject({ freshTokens: 10, cacheReadTokens: 100, outputTokens: 0 })
    decoder.read(finish('end_turn'))
    expect(decoder.usage).toMatchObject({ freshTokens: 10, cacheReadTokens: 100, outputTokens: 9 })
  })

  it.each<[stopReason: string, more: Json, expected: Json]>([
    ['stop_sequence', { stop_sequence: 'END' }, { reason: 'stop_sequence', stopSequence: 'END' }],
    ['max_tokens', {}, { reason: 'limit' }],
    ['refusal', {}, { reason: 'refused' }],
    ['model_context_window_exceeded', {}, { reason: 'context_full' }],
    ['pause_turn', {}, { reason: 'end' }],
    ['tool_use', {}, { reason: 'end' }],
    ['constructor', {}, { reason: 'end' }],
  ])('ends with %s', (stopReason, more, expected) => {
    expect(decoded(...text, finish(stopReason, more), end)).toContainEqual({ kind: 'finish', ...expected })
  })

  it('explains a refusal', () => {
    const details = { type: 'refusal', category: 'cyber', explanation: 'No.' }
    expect(decoded(finish('refusal', { stop_details: details }), end)).toContainEqual({ kind: 'refusal', text: 'No.' })
  })

  it('gives thinking with its seal, and hidden thinking', () => {
    const thinking = [
      begin(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, { type: 'thinking_delta', thinking: 'Hm' }),
      delta(0, { type: 'signature_delta', signature: 'sig' }),
      stop(0),
      begin(1, { type: 'redacted_thinking', data: 'secret' }),
      stop(1),
    ]
    expect(decoded(...thinking, finish('end_turn'), end).slice(0, 3)).toEqual([
      { kind: 'reasoning', text: 'Hm' },
      { kind: 'reasoning_seal', seal: { family: 'anthropic', data: 'sig' } },
      { kind: 'reasoning_seal', seal: { family: 'anthropic', data: 'secret', isRedacted: true } },
    ])
  })

  it('ends with tools if it has calls, whatever the server says', () => {
    const tool = begin(0, { type: 'tool_use', id: 'a', name: 'f', input: {} })
    expect(decoded(tool, stop(0), finish('end_turn'), end)).toEqual([
      call('a'),
      args('{}'),
      callEnd,
      { kind: 'finish', reason: 'tools' },
      { ...usage, usage: expect.anything() },
    ])
  })

  it('puts calls in order that arrive mixed', () => {
    const events = decoded(
      begin(0, { type: 'tool_use', id: 'a', name: 'f' }),
      begin(1, { type: 'tool_use', id: 'b', name: 'f' }),
      delta(1, { type: 'input_json_delta', partial_json: '{"b":' }),
      delta(0, { type: 'input_json_delta', partial_json: '{"a":1}' }),
      delta(1, { type: 'input_json_delta', partial_json: '2}' }),
      stop(1),
      stop(0),
      finish('tool_use'),
      end,
    )
    expect(events.slice(0, 6)).toEqual([call('a'), args('{"a":1}'), callEnd, call('b'), args('{"b":2}'), callEnd])
  })

  it('takes arguments that come with the start of a call', () => {
    const tool = begin(0, { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } })
    expect(decoded(tool, stop(0), finish('tool_use'), end)).toContainEqual(args('{"x":1}'))
  })

  it('ignores blocks and deltas that it does not know', () => {
    const unknown = [
      begin(0, { type: 'server_tool_use', id: 's' }),
      delta(0, { type: 'input_json_delta', partial_json: '{}' }),
      stop(0),
      { type: 'new_event' },
    ]
    expect(decoded(...unknown, ...text, finish('end_turn'), end)[0]).toEqual(said)
  })

  it('is complete with a stop reason, and broken off without', () => {
    expect(decoded(...text, finish('end_turn'), '[DONE]')).toContainEqual({ kind: 'finish', reason: 'end' })
    expect(failureOf(() => decoded(...text))).toBe('server_error')
  })

  it.each([
    [{ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 'busy'],
    [{ type: 'error', error: { type: 'api_error', message: 'Internal server error' } }, 'server_error'],
    [
      { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens > 8 maximum' } },
      'request_rejected',
    ],
  ])('fails with %j', (event, outcome) => expect(failureOf(() => decoded(...text, event))).toBe(outcome))

  it('fails with text that is no JSON', () => expect(failureOf(() => decoded('{'))).toBe('malformed'))
})

describe('a whole message', () => {
  it.each([
    [{ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 'busy'],
    [{ type: 'message' }, 'malformed'],
  ])('fails with %j', (body, outcome) => expect(failureOf(() => messageToAnswer(body))).toBe(outcome))

  it('may have no usage', () => {
    expect(messageToAnswer({ content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn' })).toEqual([
      said,
      { kind: 'finish', reason: 'end' },
    ])
  })
})
