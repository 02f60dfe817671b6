import { describe, expect, it } from 'vitest'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { ChunkDelta } from '../../../base/domain/completion.ts'
import { ToolNames } from '../tool-names.ts'
import { ClientToolCalls } from '../translated-stream.ts'
import { ChunkDecoder } from './chunk-decoder.ts'
import { ChunkEncoder } from './chunk-encoder.ts'
import { usageParts } from './usage.ts'

const head = { id: 'x', object: 'chat.completion.chunk' as const, created: 1, model: 'm' }

function decoded(...deltas: ChunkDelta[]): AnswerEvent[] {
  const decoder = new ChunkDecoder()
  const chunks = deltas.map(delta => ({ ...head, choices: [{ index: 0, delta, finish_reason: null }] }))
  const last = { ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' as const }] }
  return [...chunks, last].flatMap(chunk => decoder.push(chunk)).slice(0, -1)
}

const calls = (...pieces: [index: number, id: string | null, args: string][]): ChunkDelta => ({
  tool_calls: pieces.map(([index, id, args]) => ({
    index,
    ...(id !== null && { id, type: 'function' }),
    function: { ...(id !== null && { name: 'f' }), arguments: args },
  })),
})
const start = (id: string): AnswerEvent => ({ kind: 'tool_start', id, name: 'f', toolKind: 'function' })
const args = (text: string): AnswerEvent => ({ kind: 'tool_arguments', text })
const end: AnswerEvent = { kind: 'tool_end' }

describe('chunks of chat', () => {
  it('give calls one after the other', () => {
    expect(decoded(calls([0, 'a', '{"x"']), calls([0, null, ':1}']), calls([1, 'b', '{}']))).toEqual([
      ...[start('a'), args('{"x"'), args(':1}'), end],
      ...[start('b'), args('{}'), end],
    ])
  })

  it('give calls that arrive mixed in order', () => {
    expect(decoded(calls([0, 'a', '{"x"'], [1, 'b', '{"y"']), calls([1, null, ':2}'], [0, null, ':1}']))).toEqual([
      ...[start('a'), args('{"x"'), args(':1}'), end],
      ...[start('b'), args('{"y":2}'), end],
    ])
  })

  it('give text after the call before it', () => {
    expect(decoded(calls([0, 'a', '{']), { content: 'late' }, calls([0, null, '}']))).toEqual([
      ...[start('a'), args('{'), args('}'), end],
      { kind: 'text', text: 'late' },
    ])
  })

  it('give reasoning once that OpenRouter sends twice', () => {
    const piece = (text: string) => ({
      reasoning: text,
      reasoning_details: [{ type: 'reasoning.text', text, index: 0 }],
    })
    const signed = { reasoning_details: [{ type: 'reasoning.text', signature: 'sig', format: 'anthropic-claude-v1' }] }
    expect(decoded(piece('a'), piece('b'), signed, { content: 'c' })).toEqual([
      { kind: 'reasoning', text: 'a' },
      { kind: 'reasoning', text: 'b' },
      { kind: 'reasoning_seal', seal: { family: 'anthropic', data: 'sig' } },
      { kind: 'text', text: 'c' },
    ])
  })

  it('keep the seal of a call of Gemini', () => {
    const sealed: AnswerEvent = { ...start('a'), seal: { family: 'google', data: 'g' } } as AnswerEvent
    const [, chunk] = new ChunkEncoder(head).push(sealed)
    expect(chunk).toMatchObject({
      choices: [{ delta: { tool_calls: [{ extra_content: { google: { thought_signature: 'g' } } }] } }],
    })
    expect(new ChunkDecoder().push(chunk!)).toEqual([sealed])
  })

  it('ignore other choices', () => {
    const choices = [{ index: 1, delta: { content: 'second' }, finish_reason: 'stop' as const }]
    expect(new ChunkDecoder().push({ ...head, choices })).toEqual([])
  })
})

describe('usage of chat', () => {
  it('is cut to the prompt, reads first', () => {
    const details = { cached_tokens: 80, cache_write_tokens: 50, cache_write_long_tokens: 30 }
    const usage = { prompt_tokens: 100, completion_tokens: 5, total_tokens: 105, prompt_tokens_details: details }
    expect(usageParts({ ...usage, completion_tokens_details: { reasoning_tokens: 9 } })).toEqual({
      freshTokens: 0,
      cacheReadTokens: 80,
      cacheWriteTokens: 0,
      cacheWriteLongTokens: 20,
      outputTokens: 5,
      reasoningTokens: 5,
    })
  })
})

describe('a call of a custom tool', () => {
  const answer = (text: string, name = 'patch'): AnswerEvent[] => [
    { kind: 'tool_start', id: 'a', name, toolKind: 'function' },
    ...[text.slice(0, 5), text.slice(5)].map(args),
    end,
  ]
  const given = (events: AnswerEvent[]) => {
    const custom = new ClientToolCalls(
      new ToolNames({
        tools: [{ kind: 'custom', name: 'patch', description: null, parameters: null, strict: null }],
      }),
    )
    return events.flatMap(event => custom.push(event))
  }

  it('has its text again', () => {
    const start = { kind: 'tool_start', id: 'a', name: 'patch', toolKind: 'custom' }
    expect(given(answer('{"input":"a\\nb"}'))).toEqual([start, args('a\nb'), end])
    expect(given(answer('not json'))).toEqual([start, args('not json'), end])
  })

  it('of a function stays as it is', () => {
    expect(given(answer('{"input":"a"}', 'read'))).toEqual(answer('{"input":"a"}', 'read'))
  })
})
