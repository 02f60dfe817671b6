import { expect, test } from 'vitest'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { parseResponsesRequest } from './responses-request.ts'

const big = 'word '.repeat(2_000)
const boundOf = (body: object) =>
  parseResponsesRequest(Buffer.from(JSON.stringify({ model: 'demo', ...body }))).facts.inputTokensBound
const hello: JsonObject = { role: 'user', content: 'Hello' }
const look = { type: 'function', name: 'look', parameters: { type: 'object' } }
const textPart = { type: 'input_text', text: 'x' }
const call = { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' }

// OpenAI counts the first of them as input. The others may count at some server, or in a later version.
test.each<[what: string, body: object]>([
  ['the description of a namespace', { tools: [{ type: 'namespace', name: 'n', description: big, tools: [look] }] }],
  ['a field of a tool', { tools: [{ ...look, output_schema: { description: big } }] }],
  ['a field of a tool in a namespace', { tools: [{ type: 'namespace', name: 'n', tools: [{ ...look, note: big }] }] }],
  ['a tool that a later one replaces', { tools: [{ ...look, description: big }, look] }],
  [
    'a tool that may not be called',
    {
      tools: [{ ...look, name: 'other', description: big }, look],
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'look' }] },
    },
  ],
  [
    'the format of a tool of free text',
    { tools: [{ type: 'custom', name: 'c', format: { type: 'text', note: big } }] },
  ],
  ['a tool of an item', { input: [hello, { type: 'additional_tools', tools: [{ ...look, note: big }] }] }],
  ['a field of a message', { input: [{ ...hello, note: big }] }],
  ['a field of a part', { input: [{ role: 'user', content: [{ ...textPart, note: big }] }] }],
  ['a field of a call', { input: [hello, { ...call, note: big }] }],
  [
    'a part of the output of a tool',
    { input: [hello, call, { type: 'function_call_output', call_id: 'c', output: [{ ...textPart, note: big }] }] },
  ],
  ['a part of reasoning', { input: [hello, { type: 'reasoning', content: [{ type: 'new', text: 'x', note: big }] }] }],
  ['an item with the name of a method as its type', { input: [hello, { type: 'constructor', note: big }] }],
  [
    'a part with such a type',
    { input: [hello, { type: 'reasoning', content: [{ type: 'toString', text: 'x', note: big }] }] },
  ],
  ['an item of a newer API', { input: [hello, { type: 'newer', note: big }] }],
])('the bound of a prompt covers %s', (_, body) => {
  expect(boundOf({ input: [hello], ...body })).toBeGreaterThan(big.length)
})

test('the bound of a prompt covers media that an item of another API names', () => {
  const item = { type: 'computer_call_output', output: { image_url: 'https://example.com/a.png' } }
  expect(boundOf({ input: [hello, item] })).toBeGreaterThan(2_000)
})

test('known fields count once', () => {
  const plain = boundOf({ input: [hello, call], tools: [look] })
  const item = { ...call, id: 'fc_1', status: 'completed' }
  const namespaces = [{ type: 'namespace', name: 'n', tools: [{ ...look, description: big }] }]
  expect(boundOf({ input: [{ type: 'message', id: 'msg_1', ...hello }, item], tools: [look] })).toBe(plain)
  expect(boundOf({ input: [hello, call], tools: namespaces })).toBeLessThan(plain + big.length + 100)
})
