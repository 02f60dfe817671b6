import { expect, test } from 'vitest'
import { probeOf } from './probe.ts'

const { problemOf } = probeOf('m', ['chat'])
const problemWith = (message: object) => problemOf(200, JSON.stringify({ choices: [{ message }] }))

test.each<[what: string, message: object]>([
  ['a text', { content: 'ready' }],
  ['reasoning only', { content: null, reasoning_content: 'The user wants' }],
  ['parts', { content: [{ type: 'text', text: 'ready' }] }],
  ['thinking as a part', { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'The user wants' }] }] }],
])('an answer with %s is one', (_, message) => {
  expect(problemWith(message)).toBeNull()
})

test.each([{}, { content: '' }, { content: [] }, { content: [{ type: 'text', text: '' }, null] }])(
  'an answer with the message %j has no content',
  message => {
    expect(problemWith(message)).toBe('the answer has no content')
  },
)
