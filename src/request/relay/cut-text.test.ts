import { expect, test } from 'vitest'
import type { ChunkDelta } from '../../base/domain/completion.ts'
import { generatedText } from './bill.ts'
import { limitPosition, TextCutter } from './cut-text.ts'

const call = (name: string, args: string, more: object = {}) => ({
  index: 0,
  id: 'call_1',
  type: 'function',
  function: { name, arguments: args },
  ...more,
})

test.each<[what: string, delta: object, units: number, kept: object]>([
  ['content', { role: 'assistant', content: 'abcdef' }, 4, { content: 'abcd' }],
  ['nothing left', { content: 'abc', refusal: 'no', tool_calls: [call('f', '{}')] }, 0, {}],
  [
    'reasoning comes first, under both names',
    { content: 'abc', reasoning: 'xyz', reasoning_content: 'xyz' },
    4,
    { reasoning: 'xyz', reasoning_content: 'xyz', content: 'a' },
  ],
  [
    'fields that describe the uncut text',
    { content: 'abc', reasoning_details: [{}], audio: {} },
    9,
    { content: 'abc' },
  ],
  [
    'tool calls: the second is cut, the third left out',
    { content: null, tool_calls: [call('f', '{"a":1}', { extra_content: 1 }), call('g', '{"b":2}'), call('h', '{}')] },
    11,
    { tool_calls: [call('f', '{"a":1}', { extra_content: 1 }), call('g', '{"')] },
  ],
  [
    'custom tools and the older tool call',
    { function_call: { name: 'f', arguments: '{}' }, tool_calls: [{ index: 0, custom: { name: 'g', input: 'long' } }] },
    6,
    { function_call: { name: 'f', arguments: '{}' }, tool_calls: [{ index: 0, custom: { name: 'g', input: 'lo' } }] },
  ],
])('%s', (_what, delta, units, kept) => {
  const cut = new TextCutter(units).cut(delta as ChunkDelta)
  expect(cut).toEqual(kept)
  expect(generatedText([cut])).toBe(generatedText([delta as ChunkDelta]).slice(0, units))
})

test('the transcript of audio is left out, but counts where it counts', () => {
  const message = { content: 'abc', audio: { transcript: 'xyz' }, tool_calls: [call('f', '{"a":1}')] }
  expect(generatedText([message as ChunkDelta])).toBe('abcxyzf{"a":1}')
  const kept = (units: number) => new TextCutter(units).cut(message as ChunkDelta)
  expect(kept(5)).toEqual({ content: 'abc' })
  expect(kept(8)).toEqual({ content: 'abc', tool_calls: [call('f', '{')] })
})

test('a text that begins with half a surrogate pair is cut to nothing, not to nearly everything', () => {
  for (const length of [10, 20_000]) {
    const position = limitPosition(`\udc00${'word '.repeat(length)}`, 0, 0)
    expect(position).toBe(0)
  }
})
