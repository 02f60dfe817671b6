import { expect, test } from 'vitest'
import type { ChunkDelta } from '../../base/domain/completion.ts'
import { eachGeneratedText, generatedText } from './bill.ts'

test.each<[what: string, delta: object, texts: string[]]>([
  ['content', { role: 'assistant', content: 'Hello' }, ['Hello']],
  ['content and reasoning', { content: 'a', reasoning_content: 'b' }, ['b', 'a']],
  ['one reasoning under two names', { reasoning_content: 'b', reasoning: 'b' }, ['b']],
  ['a refusal', { content: null, refusal: 'no' }, ['no']],
  [
    'tool calls',
    { tool_calls: [{ function: { name: 'f', arguments: '{}' } }, { function: { arguments: '1' } }] },
    ['f', '{}', '1'],
  ],
  [
    'custom tool calls',
    { tool_calls: [{ custom: { name: 'f', input: 'x' } }, { custom: { input: 1 } }, { custom: null }] },
    ['f', 'x'],
  ],
  ['the older tool call', { function_call: { name: 'f', arguments: '{}' } }, ['f', '{}']],
  [
    'values that are not text',
    { content: 7, tool_calls: [{ function: { name: {}, arguments: 1 } }, {}], function_call: null },
    [],
  ],
  ['the transcript of audio', { audio: { data: 'UklGRg==', transcript: 'Hello' } }, ['Hello']],
  ['nothing', {}, []],
])('%s', (_what, delta, texts) => {
  const seen: string[] = []
  eachGeneratedText(delta as ChunkDelta, text => seen.push(text))
  expect(seen).toEqual(texts)
})

test('joins the text of all choices', () => {
  expect(generatedText([{ content: 'a' }, {}, { content: 'b' }])).toBe('ab')
})
