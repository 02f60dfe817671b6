import { describe, expect, test } from 'vitest'
import { parseChatRequest } from './chat-request.ts'
import { chooseTool } from './choose-tool.ts'

const tools = ['get_weather', 'book_train'].map(name => ({ type: 'function', function: { name } }))
const choose = (text: string, more: object = {}) =>
  chooseTool(parseChatRequest({ model: 'demo', messages: [{ role: 'user', content: text }], tools, ...more }))?.name

describe('chooseTool', () => {
  test.each([
    ['please call book_train now', {}, 'book_train'],
    ['Book train, please', {}, 'book_train'],
    ['hello', {}, undefined],
    ['I rebook_trains', {}, undefined],
    ['book_train', { tool_choice: 'none' }, undefined],
    ['hello', { tool_choice: 'required' }, 'get_weather'],
    ['book_train', { tool_choice: 'required' }, 'book_train'],
    ['hello', { tool_choice: { type: 'function', function: { name: 'book_train' } } }, 'book_train'],
    [
      'get_weather',
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [tools[1]] } } },
      undefined,
    ],
    ['get_weather', { tools: null }, undefined],
  ])('%s %o', (text, more, name) => {
    expect(choose(text, more)).toBe(name)
  })

  test('answers in text after a tool result, even when a call is required', () => {
    const messages = [
      { role: 'user', content: 'get_weather' },
      { role: 'assistant', content: null, tool_calls: [] },
      { role: 'tool', tool_call_id: 'call_1', content: '20 degrees' },
    ]
    expect(choose('', { messages, tool_choice: 'required' })).toBeUndefined()
  })
})
