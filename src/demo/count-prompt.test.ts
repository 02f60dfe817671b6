import { expect, test } from 'vitest'
import { countPrompt } from './count-prompt.ts'

const user = (content: string) => ({ role: 'user' as const, content })

test('counts role, word, message and start for one word', () => {
  expect(countPrompt({ messages: [user('hello')], tools: [] }, 1_000)).toBe(3 + 3 + 1 + 1)
})

test('adds names, tool calls and tools', () => {
  const plain = countPrompt({ messages: [user('hello')], tools: [] }, 1_000)
  expect(countPrompt({ messages: [{ ...user('hello'), name: 'ada' }], tools: [] }, 1_000)).toBeGreaterThan(plain + 1)
  expect(
    countPrompt({ messages: [{ ...user('hello'), tool_calls: [{ id: 'x' }] }], tools: [] }, 1_000),
  ).toBeGreaterThan(plain)
  expect(countPrompt({ messages: [user('hello')], tools: [{ name: 'f' }] }, 1_000)).toBeGreaterThan(plain)
})

test('stops counting above the limit', () => {
  const count = countPrompt(
    { messages: [user('word '.repeat(100_000)), user('word '.repeat(100_000))], tools: [] },
    500,
  )
  expect(count).toBeGreaterThan(500)
  expect(count).toBeLessThan(2_000)
})
