import { expect, test } from 'vitest'
import type { ChunkDelta } from '../../base/domain/completion.ts'
import { generatedText } from './bill.ts'
import { TextCutter } from './cut-text.ts'

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
